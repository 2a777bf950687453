#include "program/output_paths.hpp"

#include <gmock/gmock.h>

#include <cohort/host/error.hpp>

#include "error_text.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

TEST(OutputPaths, AreThoseOfTheFolderThatTheProgramWasStartedIn) {
  Options given;
  given.checkpoint_dir = "ckpt";
  given.resume = "other/step-00000007";
  given.log_dir = "logs";
  given.summary_json = "/far/summary.json";
  given.autotune = "best.toml";
  given.profile = Spec("trace.json").set("steps", 3);
  given.plugin_dirs = {"plugins"};
  const Options options = with_absolute_paths(given);
  const fs::path here = fs::current_path();
  EXPECT_EQ(options.checkpoint_dir, here / "ckpt");
  EXPECT_EQ(options.resume, here / "other/step-00000007");
  EXPECT_EQ(options.log_dir, here / "logs");
  EXPECT_EQ(options.summary_json, "/far/summary.json");
  EXPECT_EQ(options.autotune, here / "best.toml");
  EXPECT_EQ(options.profile, Spec((here / "trace.json").string()).set("steps", 3));
  EXPECT_THAT(options.plugin_dirs, ElementsAre(here / "plugins"));
  const Options none = with_absolute_paths({});
  EXPECT_TRUE(none.checkpoint_dir.empty() && none.resume.empty() && none.log_dir.empty() && !none.autotune);
  given.resume = "auto";
  EXPECT_EQ(with_absolute_paths(given).resume, "auto");
}

TEST(OutputPaths, AreCheckedWithTheFlagByTheRankThatWrites) {
  const TemporaryFolder folder;
  host::Topology rank;
  Options options;
  EXPECT_EQ(error_text<UserError>([&] { check_outputs(options, rank); }), "");
  options.summary_json = folder.path();
  EXPECT_EQ(error_text<UserError>([&] { check_outputs(options, rank); }),
            "--summary-json: cannot write " + folder.path().string() + ": it is a folder; name a file");
  rank.rank = 1;
  EXPECT_EQ(error_text<UserError>([&] { check_outputs(options, rank); }), "");
  rank.rank = 0;
  options.summary_json.clear();
  options.autotune = folder.path() / "none" / "best.toml";
  EXPECT_THAT(error_text<UserError>([&] { check_outputs(options, rank); }), HasSubstr("--autotune: cannot write "));
  options.autotune.reset();
  options.profile = Spec((folder.path() / "none" / "trace.json").string());
  EXPECT_THAT(error_text<UserError>([&] { check_outputs(options, rank); }), HasSubstr("--profile: cannot write "));
}

}  // namespace
}  // namespace cohort
