#include "checkpoint/checkpoint_folder.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "checkpoint/manifest.hpp"
#include "error_text.hpp"
#include "files/atomic_file.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::string manifest_text(uint64_t sequence) {
  Manifest manifest;
  manifest.sequence = sequence;
  manifest.files = {{kSharedFile, {}}, {rank_file(0), {}}};
  return to_json(manifest);
}

void put_manifest(const fs::path& checkpoint, uint64_t sequence) {
  fs::create_directories(checkpoint);
  write_file_atomically(checkpoint / kManifestFile, manifest_text(sequence));
}

void add_checkpoint(const fs::path& folder, uint64_t step, uint64_t sequence) {
  const fs::path checkpoint = folder / checkpoint_name(step);
  begin_checkpoint(checkpoint);
  write_file_atomically(partial_of(checkpoint) / kManifestFile, manifest_text(sequence));
  publish_checkpoint(checkpoint);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> newest_first(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& found : find_checkpoints(folder)) names.push_back(found.path.filename().string());
  return names;
}

TEST(CheckpointFolder, NamesSortByStep) {
  EXPECT_EQ(checkpoint_name(120), "step-00000120");
  EXPECT_EQ(checkpoint_name(1'234'567'890), "step-1234567890");
}

TEST(CheckpointFolder, FindsWhatIsThereTheLastWrittenFirst) {
  const TemporaryFolder folder;
  EXPECT_TRUE(find_checkpoints(folder.path() / "none").empty());
  add_checkpoint(folder.path(), 30, 1);
  add_checkpoint(folder.path(), 10, 2);  // after a step back
  put_manifest(folder.path() / "best", 3);
  fs::create_directory(folder.path() / "other");
  folder.write("file", "x");
  EXPECT_THAT(newest_first(folder.path()), ElementsAre("best", "step-00000010", "step-00000030"));
}

TEST(CheckpointFolder, KeepsTheNewestAndWhatUsersHaveNamed) {
  const TemporaryFolder folder;
  put_manifest(folder.path() / "best", 0);
  for (uint64_t i = 1; i <= 5; ++i) add_checkpoint(folder.path(), 10 * i, i);
  prune_checkpoints(folder.path(), 2);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("best", "step-00000040", "step-00000050"));
}

TEST(CheckpointFolder, ReplacesOneOfTheSameStep) {
  const TemporaryFolder folder;
  add_checkpoint(folder.path(), 10, 1);
  folder.write("step-00000010/old", "x");
  add_checkpoint(folder.path(), 10, 2);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000010"));
  EXPECT_THAT(names_in(folder.path() / "step-00000010"), ElementsAre(kManifestFile));
}

TEST(CheckpointFolder, OpeningItClearsAwayWhatAKilledRunHasLeft) {
  const TemporaryFolder folder;
  add_checkpoint(folder.path(), 10, 1);
  begin_checkpoint(folder.path() / checkpoint_name(20));
  folder.write(".partial-step-00000020/shared.safetensors", "half");
  put_manifest(folder.path() / ".removed-step-00000005", 0);
  put_manifest(folder.path() / "step-00000010.replaced", 0);
  put_manifest(folder.path() / "step-00000012.replaced", 5);  // killed between the two renames
  open_checkpoint_folder(folder.path());
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000010", "step-00000012"));
}

TEST(CheckpointFolder, AReplacedOneIsFoundUntilTheNewOneHasItsName) {
  const TemporaryFolder folder;
  put_manifest(folder.path() / "step-00000010.replaced", 1);
  EXPECT_THAT(newest_first(folder.path()), ElementsAre("step-00000010.replaced"));
}

TEST(CheckpointFolder, ADamagedManifestIsFoundWithItsProblem) {
  const TemporaryFolder folder;
  add_checkpoint(folder.path(), 10, 1);
  fs::create_directory(folder.path() / "step-00000020");
  folder.write("step-00000020/manifest.json", "{");
  const auto found = find_checkpoints(folder.path());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0].problem, HasSubstr("step-00000020/manifest.json is not the manifest"));
  EXPECT_EQ(found[1].problem, "");
}

TEST(CheckpointFolder, SaysWhyItCannotBeMade) {
  const TemporaryFolder folder;
  const auto file = folder.write("file", "x");
  EXPECT_THAT(error_text<UserError>([&] { open_checkpoint_folder(file); }),
              HasSubstr("cannot make the folder " + file.string()));
  EXPECT_THAT(error_text<UserError>([&] { open_checkpoint_folder(file / "below"); }), HasSubstr("Not a directory"));
  EXPECT_THAT(error_text<UserError>([&] { open_checkpoint_folder("/proc/cohort"); }), HasSubstr("/proc/cohort"));
}

TEST(AtomicFile, BeyondTheLimitOfFileSizesIsAMessageAndLeavesNothing) {
  const TemporaryFolder folder;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto message =
      error_text<UserError>([&] { write_file_atomically(folder.path() / "big", std::string(1000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, HasSubstr("cannot write " + (folder.path() / "big").string() + ": File too large"));
  EXPECT_TRUE(names_in(folder.path()).empty());
  struct sigaction action {};
  ::sigaction(SIGXFSZ, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace cohort
