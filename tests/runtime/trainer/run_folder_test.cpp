#include "loggers/run_folder.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include <cohort/host/error.hpp>

#include "error_text.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

TEST(RunFolder, NumbersGoUpFromZero) {
  const TemporaryFolder folder;
  const fs::path dir = folder.path() / "deep" / "runs";
  for (const char* name : {"version_0", "version_1", "version_2"}) {
    EXPECT_EQ(make_run_folder(dir), dir / name);
    EXPECT_TRUE(fs::is_directory(dir / name));
  }
}

TEST(RunFolder, ANumberIsAboveAllThatAreThereAndFillsNoGap) {
  const TemporaryFolder folder;
  for (const char* name : {"version_2", "version_10", "version_9"}) fs::create_directory(folder.path() / name);
  EXPECT_EQ(make_run_folder(folder.path()), folder.path() / "version_11");
}

TEST(RunFolder, OtherNamesDoNotCount) {
  const TemporaryFolder folder;
  for (const char* name : {"version_", "version_7x", "version_08", "version_-1", "xversion_9", "version_+5",
                           "version_18446744073709551615", "version_99999999999999999999"}) {
    fs::create_directory(folder.path() / name);
  }
  EXPECT_EQ(make_run_folder(folder.path()), folder.path() / "version_0");
}

TEST(RunFolder, AFileTakesANumber) {
  const TemporaryFolder folder;
  folder.write("version_3", "a user's");
  EXPECT_EQ(make_run_folder(folder.path()), folder.path() / "version_4");
  EXPECT_EQ(folder.read("version_3"), "a user's");
}

TEST(RunFolder, RunsThatStartAtTheSameMomentGetOneEach) {
  constexpr size_t kThreads = 8;
  constexpr size_t kRunsOfEach = 25;
  const TemporaryFolder folder;
  std::vector<std::vector<fs::path>> made(kThreads);
  std::vector<std::thread> threads;
  for (auto& paths : made) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < kRunsOfEach; ++i) paths.push_back(make_run_folder(folder.path() / "runs"));
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<fs::path> different;
  for (const auto& paths : made) different.insert(paths.begin(), paths.end());
  EXPECT_EQ(different.size(), kThreads * kRunsOfEach);
}

TEST(RunFolder, AFileInPlaceOfTheFolderIsNamed) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("runs", "");
  EXPECT_NE(error_text<UserError>([&] { make_run_folder(file); }).find(file), std::string::npos);
}

}  // namespace
}  // namespace cohort
