#include "checkpoint/checkpoint_folder.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>

#include "checkpoint/manifest.hpp"
#include "error_text.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TemporaryFolder;

std::string manifest_text(uint64_t sequence, uint64_t step) {
  Manifest manifest;
  manifest.sequence = sequence;
  manifest.step = step;
  manifest.files = {{kSharedFile, {}}, {rank_file(0), {}}};
  return to_json(manifest);
}

void put_manifest(const fs::path& checkpoint, uint64_t sequence) {
  fs::create_directories(checkpoint);
  const auto step = step_of_name(checkpoint.filename().string());
  host::write_file(checkpoint / kManifestFile, manifest_text(sequence, step.value_or(0)));
}

void add_checkpoint(const fs::path& folder, uint64_t step, uint64_t sequence) {
  const fs::path checkpoint = folder / checkpoint_name(step);
  begin_checkpoint(checkpoint);
  host::write_file(partial_of(checkpoint) / kManifestFile, manifest_text(sequence, step));
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

TEST(CheckpointFolder, KnowsItsOwnNamesAlone) {
  for (const uint64_t step : {uint64_t{0}, uint64_t{7}, uint64_t{1'234'567'890}, ~uint64_t{0}}) {
    EXPECT_EQ(step_of_name(checkpoint_name(step)), step);
  }
  for (const char* other : {"step-", "step-7", "step-0000007", "step-000000007", "step-0000000x", "step-00000007.old",
                            "Step-00000007", "step-00000007\n", "step--0000007", "step-99999999999999999999999"}) {
    EXPECT_EQ(step_of_name(other), std::nullopt) << other;
  }
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

TEST(CheckpointFolder, OpeningItTouchesNothingOfTheUsers) {
  const TemporaryFolder folder;
  const std::vector<std::string> names{
      ".partial-notes",  ".partial-step-7", ".removed-mail", ".removed-step-00000001x", "photos.replaced",
      "step-1.replaced", "step-7",          "step-x",        ".partial-.replaced",      ".replaced"};
  for (const auto& name : names) {
    fs::create_directory(folder.path() / name);
    folder.write(name + "/mine", "x");
  }
  folder.write(".partial-step-00000003", "a file");
  put_manifest(folder.path() / "step-7", 1);
  open_checkpoint_folder(folder.path());
  prune_checkpoints(folder.path(), 0);
  for (const auto& name : names) EXPECT_EQ(folder.read(name + "/mine"), "x") << name;
  EXPECT_EQ(folder.read(".partial-step-00000003"), "a file");
  EXPECT_THAT(names_in(folder.path()), SizeIs(names.size() + 1));
}

TEST(CheckpointFolder, WhatHasTheNameOfACheckpointAndIsNoneIsNotReplaced) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "step-00000020");
  folder.write("step-00000020/mine", "x");
  const auto message = error_text<UserError>([&] { open_checkpoint_folder(folder.path()); });
  EXPECT_THAT(message, HasSubstr("step-00000020' has the name of a checkpoint, but has no manifest; move it away"));
  EXPECT_EQ(error_text<UserError>([&] { begin_checkpoint(folder.path() / "step-00000020"); }), message);
  folder.write("step-00000030", "a file");
  EXPECT_THAT(error_text<UserError>([&] { begin_checkpoint(folder.path() / "step-00000030"); }),
              HasSubstr("step-00000030' has the name of a checkpoint"));
  EXPECT_EQ(folder.read("step-00000020/mine"), "x");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000020", "step-00000030"));
}

TEST(CheckpointFolder, AnotherStepThanThatOfTheNameIsDamage) {
  const TemporaryFolder folder;
  add_checkpoint(folder.path(), 10, 1);
  fs::copy(folder.path() / "step-00000010", folder.path() / "best");
  fs::rename(folder.path() / "step-00000010", folder.path() / "step-00000011");
  EXPECT_EQ(read_manifest(folder.path() / "best").step, 10U);
  for (const char* name : {"step-00000011", "step-00000011/"}) {
    EXPECT_THAT(error_text<DamagedCheckpoint>([&] { read_manifest(folder.path() / name); }),
                HasSubstr("is of step 10, not of the step that its folder is named after"));
  }
}

TEST(CheckpointFolder, APipeInPlaceOfAManifestIsDamage) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "step-00000010");
  ASSERT_EQ(::mkfifo((folder.path() / "step-00000010/manifest.json").c_str(), 0600), 0);
  EXPECT_THAT(find_checkpoints(folder.path()).at(0).problem, HasSubstr("manifest.json: it is not a regular file"));
}

/// A fork of this process that does its work and then waits to be killed.
class Fork {
 public:
  explicit Fork(const std::function<void()>& work) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      try {
        work();
        if (!::testing::Test::HasFailure() && ::write(ready[1], "x", 1) == 1) ::pause();
      } catch (const std::exception& error) {
        std::fputs(error.what(), stderr);
      }
      ::_exit(1);
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the fork has failed";
    ::close(ready[0]);
  }
  ~Fork() { kill(); }
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

/// Returns why this process cannot take the lock; "" if it can.
std::string refusal(const fs::path& folder) {
  return error_text<UserError>([&] { lock_folder(folder); });
}

TEST(FolderLock, IsOneJobsAndEndsWithItHoweverItDies) {
  const TemporaryFolder folder;
  std::shared_ptr<FolderLock> lock;  // which the fork never lets go
  Fork other([&] { lock = open_checkpoint_folder(folder.path()); });
  begin_checkpoint(folder.path() / "step-00000010");  // of the other one
  const LockPatience patience{std::chrono::hours(1), [](const std::string& line) { ADD_FAILURE() << line; }};
  EXPECT_EQ(error_text<UserError>([&] { open_checkpoint_folder(folder.path(), patience); }),
            "another job (process " + std::to_string(other.pid()) + ") writes checkpoints into '" +
                folder.path().string() + "'; wait for its end, or name another folder");
  EXPECT_THAT(names_in(folder.path()), ElementsAre(kLockFile, ".partial-step-00000010"));
  other.kill();
  EXPECT_TRUE(open_checkpoint_folder(folder.path())->is_held());
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
}

TEST(FolderLock, IsNotInheritedByForksThatTheProgramMakes) {
  const TemporaryFolder folder;
  auto lock = lock_folder(folder.path());
  const Fork copy([&] { lock.reset(); });
  EXPECT_THAT(names_in(folder.path()), ElementsAre(kLockFile));
  const Fork living([] {});
  lock.reset();
  const Fork next([&] { lock = open_checkpoint_folder(folder.path()); });
}

TEST(FolderLock, OfAnotherHostIsWaitedForBecauseThatMayBeDead) {
  const TemporaryFolder folder;
  std::shared_ptr<FolderLock> lock;
  Fork other([&] { lock = lock_folder(folder.path()); });
  EXPECT_THAT(folder.read(kLockFile), ::testing::EndsWith(" " + std::to_string(other.pid()) + "\n"));
  folder.write(kLockFile, "node7 4711\n");
  EXPECT_EQ(error_text<UserError>([&] {
              lock_folder(folder.path(), {std::chrono::milliseconds(1), {}});
            }),
            "another job (process 4711 on node7) writes checkpoints into '" + folder.path().string() +
                "'; wait for its end, or name another folder");
  std::vector<std::string> lines;
  lock = lock_folder(folder.path(), {std::chrono::minutes(1), [&](const std::string& line) {
                                       lines.push_back(line);
                                       other.kill();
                                     }});
  EXPECT_TRUE(lock->is_held());
  EXPECT_THAT(lines, ElementsAre("waiting up to 60 s for another job (process 4711 on node7) to let '" +
                                 folder.path().string() + "' go"));
}

TEST(FolderLock, IsSharedWithinAProcess) {
  const TemporaryFolder folder;
  const auto lock = lock_folder(folder.path());
  fs::create_directory_symlink(folder.path(), folder.path() / "link");
  lock_folder(folder.path() / "link").reset();
  EXPECT_TRUE(fs::exists(folder.path() / kLockFile));
  const Fork other([&] { EXPECT_THAT(refusal(folder.path()), HasSubstr("another job (process ")); });
}

TEST(FolderLock, IsTakenAgainAfterTheProcessHasCopiedTheFolder) {
  const TemporaryFolder folder, copy;
  const auto lock = lock_folder(folder.path());
  fs::copy(folder.path(), copy.path(), fs::copy_options::recursive);
  {
    std::shared_ptr<FolderLock> taken;
    const Fork other([&] { taken = lock_folder(folder.path()); });
    EXPECT_THAT(error_text<UserError>([&] { lock->keep(); }), HasSubstr("another job (process "));
  }
  const auto again = lock_folder(folder.path());
  fs::copy(folder.path(), copy.path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  again->keep();
  const Fork other([&] { EXPECT_THAT(refusal(folder.path()), HasSubstr("another job (process ")); });
}

TEST(FolderLock, MayBeTakenByAllWhoMayWriteIntoTheFolder) {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0770));
  std::shared_ptr<FolderLock> lock;
  const Fork other([&] {
    ::umask(077);
    lock = lock_folder(folder.path());
  });
  EXPECT_EQ(fs::status(folder.path() / kLockFile).permissions(), fs::perms(0660));
}

TEST(FolderLock, OfAFileThatMayOnlyBeReadIsRefusedOnlyWhileItIsHeld) {
  const TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0777));
  auto lock = lock_folder(folder.path());
  fs::permissions(folder.path() / kLockFile, fs::perms(0444));
  const auto be_another_user = [] { EXPECT_TRUE(::getuid() != 0 || ::setuid(65534) == 0); };
  const Fork refused([&] {
    be_another_user();
    EXPECT_THAT(refusal(folder.path()), HasSubstr("another job (process " + std::to_string(::getppid()) + ")"));
  });
  lock.reset();
  folder.write(kLockFile, "left by a crash");
  fs::permissions(folder.path() / kLockFile, fs::perms(0444));
  const Fork next([&] {
    be_another_user();
    lock = lock_folder(folder.path());
  });
  EXPECT_THAT(refusal(folder.path()), HasSubstr("another job (process " + std::to_string(next.pid()) + ")"));
}

/// Takes the lock many times. Returns true if no other process ever held it at the same time.
bool holds_it_alone(const fs::path& folder) {
  constexpr int kTimes = 150;
  for (int held = 0, tries = 0; held < kTimes && tries < 1000 * kTimes; ++tries) {
    try {
      const FolderLock lock(folder);
      if (!fs::create_directory(folder / "inside") || !fs::remove(folder / "inside")) return false;
      ++held;
    } catch (const UserError&) {  // another one has it
    }
  }
  return true;
}

TEST(FolderLock, IsHeldByOneOfManyThatComeAndGo) {
  const TemporaryFolder folder;
  const pid_t other = ::fork();
  if (other == 0) ::_exit(holds_it_alone(folder.path()) ? 0 : 1);
  EXPECT_TRUE(holds_it_alone(folder.path()));
  int status = 0;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(FolderLock, IsNotTakenFromWhatIsNoFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / kLockFile).c_str(), 0600), 0);
  EXPECT_THAT(error_text<UserError>([&] { FolderLock lock(folder.path()); }),
              HasSubstr(".cohort-lock: it is not a regular file; delete it"));
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

}  // namespace
}  // namespace cohort
