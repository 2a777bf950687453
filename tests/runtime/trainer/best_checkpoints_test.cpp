// The checkpoints with the best values of a metric.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include <cohort/callbacks.hpp>

#include "callbacks/link_name.hpp"
#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::HasSubstr;

TEST(BestCheckpoints, KeepsTheBestAndLinksToIt) {
  TemporaryFolder folder;
  Training run([&](Options& o) {
    o.max_epochs = 6;
    o.checkpoint_dir = folder.path();
  });
  const std::vector<double> values{5, 3, 4, 1, NAN, 2};
  run.net.in_validation = [&] { run.net.log("score", values.at(static_cast<size_t>(run.net.current_epoch()))); };
  const auto best =
      std::make_shared<BestCheckpoints>(folder.path() / "best", "score", BestCheckpoints::Options{.keep = 2});
  run.fit({best});
  ASSERT_EQ(best->kept().size(), 2U);
  EXPECT_EQ(best->kept()[0].value, 1);
  EXPECT_EQ(best->kept()[0].path.filename(), "step-00000008");
  EXPECT_EQ(best->kept()[1].value, 2);
  EXPECT_EQ(fs::read_symlink(folder.path() / "best" / "best"), "step-00000008");
  size_t checkpoints = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "best")) {
    if (entry.is_directory() && !entry.is_symlink()) ++checkpoints;
  }
  EXPECT_EQ(checkpoints, 2U);
}

TEST(BestCheckpoints, CanBeResumedFrom) {
  TemporaryFolder folder;
  const auto flag = [](Options& o) {
    o.monitor = host::parse_metric_spec("val", "--monitor");
    o.keep_best = 2;
  };
  Stretch{folder.path(), flag}(4, false, {});
  Training resumed([&](Options& o) {
    o.max_epochs = 5;
    o.resume = folder.path() / "best" / "best";
  });
  resumed.fit({});
  EXPECT_EQ(resumed.record.epochs, 5);
}

TEST(BestCheckpoints, RemembersWhatItKeptAfterAResume) {
  TemporaryFolder whole, halves;
  const auto flag = [](Options& o) {
    o.monitor = host::parse_metric_spec("val,mode=max", "--monitor");
    o.keep_best = 3;
  };
  const auto names = [](const fs::path& folder) {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder / "best")) found.insert(entry.path().filename());
    return found;
  };
  Stretch{whole.path(), flag}(8, false, {});
  const Stretch stretch{halves.path(), flag};
  stretch(4, false, {});
  stretch(8, true, {});
  EXPECT_EQ(names(halves.path()), names(whole.path()));
  EXPECT_EQ(fs::read_symlink(halves.path() / "best" / "best"), fs::read_symlink(whole.path() / "best" / "best"));
}

TEST(BestCheckpoints, FlagWithoutAFolderIsRefused) {
  Training run([](Options& o) { o.monitor = host::parse_metric_spec("val", "--monitor"); });
  EXPECT_THAT(error_text<UserError>([&] { run.fit({}); }), HasSubstr("--checkpoint-dir"));
}

TEST(BestCheckpoints, TakeNoNameFromAFileThatIsNoCheckpoint) {
  TemporaryFolder folder;
  for (const char* place : {"best", "victim", "best/step-1"}) {
    fs::create_directories(folder.path() / place);
    std::ofstream(folder.path() / place / "manifest.json") << "{}";
  }
  BestCheckpoints best(folder.path() / "best", "val");
  const auto refusal = [&](const std::string& names, double value) {
    CallbackState state;
    state.set("names", names);
    state.set("value-0", value);
    return error_text<UserError>([&] { best.load_state(state); });
  };
  for (const std::string& name : {std::string("../victim"), (folder.path() / "victim").string(), std::string("."),
                                  std::string(""), std::string("step-1"), std::string("step-00000001/../../victim")}) {
    EXPECT_THAT(refusal(name + "\n", 1), HasSubstr("is no checkpoint of it")) << name;
  }
  EXPECT_THAT(refusal("step-00000001\n", NAN), HasSubstr("is no checkpoint of it"));
  EXPECT_EQ(refusal("step-00000001\n", 1), "");
  EXPECT_TRUE(best.kept().empty());
}

TEST(BestCheckpoints, FolderIsOpenedBeforeTheTraining) {
  for (const bool is_folder_in_it : {false, true}) {
    TemporaryFolder folder;
    if (is_folder_in_it) {
      fs::create_directories(folder.path() / "best/best");
    } else {
      folder.write("best", "");
    }
    for (const bool by_flag : {false, true}) {
      Training run([&](Options& o) {
        o.checkpoint_dir = folder.path();
        if (by_flag) o.monitor = host::parse_metric_spec("val", "--monitor");
      });
      std::vector<std::shared_ptr<Callback>> own;
      if (!by_flag) own.push_back(std::make_shared<BestCheckpoints>(folder.path() / "best", "val"));
      EXPECT_THAT(error_text<UserError>([&] { run.fit(own); }), HasSubstr((folder.path() / "best").string()));
      EXPECT_TRUE(run.net.indices.empty());
    }
  }
}

TEST(BestCheckpoints, HaveLinksWithNamesOfTheUsers) {
  TemporaryFolder folder;
  Training run([&](Options& o) {
    o.max_epochs = 5;
    o.checkpoint_dir = folder.path();
    o.monitor = host::parse_metric_spec("score,name=epoch={epoch}-{step}-{score:.2f}", "--monitor");
    o.keep_best = 2;
  });
  const std::vector<double> values{5, 3.111, 4, 6, 7};
  run.net.in_validation = [&] { run.net.log("score", values.at(static_cast<size_t>(run.net.current_epoch()))); };
  run.fit({});
  std::map<std::string, std::string> links;
  for (const auto& entry : fs::directory_iterator(folder.path() / "best")) {
    if (entry.is_symlink()) links[entry.path().filename()] = fs::read_symlink(entry.path()).string();
  }
  EXPECT_EQ(links,
            (std::map<std::string, std::string>{
                {"best", "step-00000004"}, {"epoch=1-4-3.11", "step-00000004"}, {"epoch=2-6-4.00", "step-00000006"}}));
}

TEST(BestCheckpoints, NamesMayHoldMetricsOfAnyName) {
  for (const std::string metric : {"val/loss", "val.loss", "val loss", "val-loss", "F1(macro)", "0"}) {
    const std::string name = "e{epoch}-{" + metric + ":.2f}-{" + metric + "}";
    EXPECT_EQ(link_name(name, metric, 0.25, 3, 7), "e3-0.25-0.25");
    BestCheckpoints("folder", metric, {.name = name});
  }
  EXPECT_EQ(link_name("{step}:val/loss={val/loss}", "val/loss", 0.5, 1, 2), "2:val-loss=0.5");
  EXPECT_EQ(link_name("{{val}}-{val:.1f}", "val", 2, 1, 2), "{val}-2.0");
}

TEST(BestCheckpoints, NamesLongerThanThoseOfFilesAreRefused) {
  for (const char* name : {"{step:1000000000}", "{val:.1000000000f}", "{step:{epoch}}", "{val:{step}.3f}"}) {
    EXPECT_THAT(error_text<UserError>([&] { BestCheckpoints("folder", "val", {.name = name}); }),
                HasSubstr("is wider than the name of a file may be"))
        << name;
  }
  EXPECT_THAT(error_text<UserError>([] { BestCheckpoints("folder", "val", {.name = "{step:300}"}); }),
              HasSubstr("at most 255"));
}

TEST(BestCheckpoints, RefuseANameThatIsNone) {
  const auto refusal = [](const std::string& name) {
    return error_text<UserError>([&] { BestCheckpoints("folder", "val", {.name = name}); });
  };
  EXPECT_THAT(refusal("{vall}"), HasSubstr("{val:.3f}"));
  EXPECT_THAT(refusal("{val"), HasSubstr("'{val'"));
  for (const char* name : {"a/{step}", ".hidden", "best", "step-{step:08}"}) {
    EXPECT_THAT(refusal(name), HasSubstr("choose one without")) << name;
  }
}

}  // namespace
}  // namespace cohort::testing
