// Folders that a training writes checkpoints into, and those that it goes on from.
#include <gmock/gmock.h>

#include <cohort/host/spec.hpp>

#include "training_job.hpp"

namespace cohort::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Trains with the best checkpoints kept, and then loses the others.
Outcome leave_the_best_alone(const fs::path& folder) {
  const Outcome whole =
      train(writing(folder, [](Options& o) { o.monitor = host::parse_metric_spec("val", "--monitor"); }));
  for (const std::string& name : names_in(folder)) {
    if (name.starts_with("step-")) fs::remove_all(folder / name);
  }
  return whole;
}

TEST(Resume, AFreshTrainingLeavesTheBestOfAnotherAlone) {
  const TemporaryFolder folder;
  leave_the_best_alone(folder.path());
  const auto best = names_in(folder.path() / "best");
  for (const bool monitors : {false, true}) {
    EXPECT_THAT(mistake(writing(folder.path(),
                                [=](Options& o) {
                                  if (monitors) o.monitor = host::parse_metric_spec("val", "--monitor");
                                })),
                HasSubstr("best' holds checkpoints of another training"));
  }
  EXPECT_EQ(names_in(folder.path() / "best"), best);
}

TEST(Resume, GoesOnFromTheBestIfThereIsNoOther) {
  const TemporaryFolder folder;
  const Outcome whole = leave_the_best_alone(folder.path());
  const std::string best = fs::read_symlink(folder.path() / "best/best").string();
  const Outcome second = train(writing(folder.path(), [](Options& o) {
    o.monitor = host::parse_metric_spec("val", "--monitor");
    o.resume = "auto";
  }));
  EXPECT_EQ(second.digest, whole.digest);
  EXPECT_LT(second.indices.size(), whole.indices.size());
  EXPECT_TRUE(fs::exists(folder.path() / "best" / best));
  EXPECT_EQ(fs::read_symlink(folder.path() / "best/best"), best);
}

TEST(Resume, FollowsALinkToAFolderElsewhere) {
  const TemporaryFolder folder, elsewhere;
  train(writing(folder.path(), [](Options& o) { o.max_epochs = 1; }));
  const fs::path newest = folder.path() / "step-00000006";
  fs::rename(newest, elsewhere.path() / "moved");
  fs::create_directory_symlink(elsewhere.path() / "moved", newest);
  for (const fs::path& resume : {fs::path("auto"), newest, newest / ""}) {
    Job job = writing(folder.path(), [&](Options& o) {
      o.resume = resume;
      o.keep_checkpoints = 9;
    });
    EXPECT_EQ(mistake(job), "") << resume;
    for (const char* name : {"step-00000012", "step-00000018"})
      EXPECT_EQ(fs::remove_all(folder.path() / name) > 0, true);
  }
  EXPECT_TRUE(fs::exists(elsewhere.path() / "moved/manifest.json"));
}

TEST(Resume, FromAnOlderCheckpointGoesItsOwnWay) {
  const TemporaryFolder folder;
  const Outcome whole = train(writing(folder.path(), [](Options& o) { o.keep_checkpoints = 9; }));
  const Outcome second =
      train(writing(folder.path(), [&](Options& o) { o.resume = folder.path() / "step-00000006/"; }));
  EXPECT_EQ(second.indices.size(), 12U);
  EXPECT_EQ(second.digest, whole.digest);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000012", "step-00000018"));
}

TEST(Resume, EachTrainingOfAProgramHasItsOwnCheckpoints) {
  const TemporaryFolder folder;
  const auto program = [&](int stop) {
    ScriptedRun run([&](Script& s) {
      s.options.max_epochs = 1;
      s.options.checkpoint_dir = folder.path();
      s.options.resume = "auto";
    });
    torch::manual_seed(5);
    Learner net;
    if (stop) net.during = signal_at_call(stop);
    Numbers data;
    RunRecord record;
    try {
      for (int fit = 0; fit < 2; ++fit) Trainer(run.runtime(), record).fit(net, data);
    } catch (const Interrupted&) {
    }
    return std::pair(weights_digest(net), net.indices.size());
  };
  program(8);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("fit-2", "step-00000006"));
  EXPECT_THAT(names_in(folder.path() / "fit-2"), ElementsAre("step-00000002"));
  const auto [digest, batches] = program(0);
  EXPECT_EQ(batches, 4U);
  fs::remove_all(folder.path());
  EXPECT_EQ(program(0).first, digest);
}

}  // namespace
}  // namespace cohort::testing
