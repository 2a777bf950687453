#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/error.hpp>
#include <cohort/host/plugin_host.hpp>

#include "support/temporary_folder.hpp"

namespace cohort::host {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct PluginSearchTest : ::testing::Test {
  testing::TemporaryFolder root;
  Log log{LogSettings{}};
  fs::path first = root.path() / "first";
  fs::path second = root.path() / "second";

  PluginSearchTest() {
    fs::create_directory(first);
    fs::create_directory(second);
  }

  static void put(const fs::path& folder, const std::string& name) {
    fs::copy_file(fs::path(TEST_PLUGIN_FOLDER) / ("cohort_" + name + ".so"), folder / ("cohort_" + name + ".so"));
  }
};

TEST_F(PluginSearchTest, TakesTheFirstFolderThatHasTheFile) {
  put(first, "good");
  put(second, "good");
  PluginHost plugins(PluginSearch{{}, {first, second}}, log);
  plugins.open(Kind::kStrategy, "good");
  EXPECT_EQ(plugins.loaded()[0].file, first / "cohort_good.so");
}

TEST_F(PluginSearchTest, TakesAGivenFileBeforeAnyFolder) {
  put(first, "good");
  put(second, "good");
  PluginHost plugins(PluginSearch{{second / "cohort_good.so"}, {first}}, log);
  plugins.open(Kind::kStrategy, "good");
  EXPECT_EQ(plugins.loaded()[0].file, second / "cohort_good.so");
}

TEST_F(PluginSearchTest, ListsWhatCouldBeFoundAndWhatIsShadowed) {
  put(first, "good");
  put(second, "good");
  put(second, "two_kinds");
  std::ofstream(second / "libother.so");
  std::ofstream(second / "cohort_Bad.so");
  std::ofstream(second / "cohort_.so");
  std::ofstream(second / "cohort_.s");
  const PluginHost plugins(PluginSearch{{}, {first, second, first}}, log);
  std::vector<std::string> listed;
  for (const PluginFile& file : plugins.available()) listed.push_back(file.name + (file.shadowed ? " shadowed" : ""));
  EXPECT_THAT(listed, ElementsAre("good", "good shadowed", "two_kinds"));
}

TEST_F(PluginSearchTest, RefusesAGivenFileThatIsNotThere) {
  EXPECT_THROW(PluginHost(PluginSearch{{first / "cohort_gone.so"}, {}}, log), UserError);
}

TEST_F(PluginSearchTest, RefusesAGivenFileWithAnotherForm) {
  std::ofstream(first / "libgood.so");
  try {
    PluginHost(PluginSearch{{first / "libgood.so"}, {}}, log);
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("libgood.so' is not called cohort_NAME.so"), HasSubstr("rename it")));
  }
}

TEST_F(PluginSearchTest, ShowsEveryPlaceWithItsTrouble) {
  std::ofstream(root.path() / "file");
  PluginHost plugins(PluginSearch{{}, {first, root.path() / "gone", root.path() / "file"}}, log);
  try {
    plugins.open(Kind::kCollective, "wire");
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("\n  " + first.string() + "\n  " + root.path().string() +
                                        "/gone (no such folder)\n  " + root.path().string() + "/file (no folder)"));
  }
}

TEST_F(PluginSearchTest, NeverLooksInTheCurrentDirectory) {
  put(first, "good");
  const fs::path before = fs::current_path();
  fs::current_path(first);
  PluginHost plugins(PluginSearch{{}, default_directories({}, "::", "")}, log);
  EXPECT_THROW(plugins.open(Kind::kStrategy, "good"), UserError);
  fs::current_path(before);
}

TEST_F(PluginSearchTest, SaysHowToBuildAMissingPlugin) {
  std::ofstream(second / "not_built.txt")
      << "good_one it was left out\ngood it is not built yet; 'make good' builds it\n";
  PluginHost plugins(PluginSearch{{}, {first, second}}, log);
  const auto refusal = [&](Kind kind, const char* name) -> std::string {
    try {
      plugins.open(kind, name);
    } catch (const UserError& error) {
      return error.what();
    }
    return "opened";
  };
  EXPECT_EQ(refusal(Kind::kStrategy, "good"),
            "there is no strategy 'good': it is not built yet; 'make good' builds it");
  EXPECT_EQ(refusal(Kind::kLogger, "good_one"), "there is no logger 'good_one': it was left out");
  EXPECT_THAT(refusal(Kind::kStrategy, "goo"), HasSubstr("was looked for in"));
  EXPECT_EQ(plugins.why_missing("good", "it is not installed"), "good: it is not built yet; 'make good' builds it");
  EXPECT_EQ(plugins.why_missing("other", "it is not installed"), "it is not installed");
  put(first, "good");
  EXPECT_EQ(refusal(Kind::kStrategy, "good"), "opened");
}

TEST(DefaultDirectories, AreInOrderOfPrecedence) {
  const std::vector<fs::path> flags{"/flag/one", "/flag/two"};
  const auto folders = default_directories(flags, "/path/one::/path/two:/flag/one", "/data/share");
  ASSERT_EQ(folders.size(), 6u);
  EXPECT_TRUE(std::ranges::equal(
      std::vector<fs::path>(folders.begin(), folders.end() - 1),
      std::vector<fs::path>{"/flag/one", "/flag/two", "/path/one", "/path/two", "/data/share/cohort/plugins"}));
}

TEST(DefaultDirectories, EndBesideTheRuntime) {
  const fs::path beside = default_directories({}, "", "").back();
  EXPECT_TRUE(beside.is_absolute());
  EXPECT_EQ(beside.filename(), "plugins");
  EXPECT_TRUE(fs::exists(beside.parent_path().parent_path() / "libcohort_host.so")) << beside;
}

TEST(DefaultDirectories, RefuseARelativeSearchPath) {
  EXPECT_THROW(default_directories({}, "/abs:plugins", ""), UserError);
  EXPECT_THROW(default_directories({}, ".", ""), UserError);
}

TEST(DefaultDirectories, LeaveOutARelativeDataFolder) {
  EXPECT_EQ(default_directories({}, "", "share").size(), 1u);
}

}  // namespace
}  // namespace cohort::host
