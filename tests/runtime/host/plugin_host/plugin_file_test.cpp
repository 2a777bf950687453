// Files that are refused before the dynamic linker sees them.
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/error.hpp>
#include <cohort/host/plugin_host.hpp>

#include "support/temporary_folder.hpp"

namespace cohort::host {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

const fs::path kGood = fs::path(TEST_PLUGIN_FOLDER) / "cohort_good.so";

struct PluginFileTest : ::testing::Test {
  testing::TemporaryFolder folder;
  Log log{LogSettings{}};
  fs::path file = folder.path() / "cohort_good.so";

  std::string refusal() const {
    Log quiet{LogSettings{}};
    PluginHost plugins(PluginSearch{{}, {folder.path()}}, quiet);
    try {
      plugins.open(Kind::kStrategy, "good");
    } catch (const PluginRefused& error) {
      return error.what();
    }
    return "opened";
  }

  void overwrite(std::size_t offset, std::string_view bytes) const {
    std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(offset));
    out << bytes;
  }
};

TEST_F(PluginFileTest, OpensAPrivateCopy) {
  fs::copy_file(kGood, file);
  EXPECT_EQ(refusal(), "opened");
}

TEST_F(PluginFileTest, OpensThroughALink) {
  fs::create_symlink(kGood, file);
  EXPECT_EQ(refusal(), "opened");
}

TEST_F(PluginFileTest, RefusesADanglingLink) {
  fs::create_symlink("/nonexistent/cohort_good.so", file);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("No such file"), HasSubstr("check the link")));
}

TEST_F(PluginFileTest, RefusesAFolder) {
  fs::create_directory(file);
  EXPECT_THAT(refusal(), HasSubstr("it is a folder"));
}

TEST_F(PluginFileTest, RefusesAPipeWithoutWaitingOnIt) {
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(refusal(), HasSubstr("it is not a regular file"));
}

TEST_F(PluginFileTest, RefusesAWorldWritableFileEvenInAStickyFolder) {
  fs::copy_file(kGood, file);
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("everyone can change it"), HasSubstr("chmod o-w '" + file.string() + "'")));
  ASSERT_EQ(::chmod(folder.path().c_str(), 01777), 0);
  EXPECT_THAT(refusal(), HasSubstr("everyone can change it"));
}

TEST_F(PluginFileTest, RefusesAFileThatEveryoneCanReplace) {
  fs::copy_file(kGood, file);
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  EXPECT_THAT(refusal(), HasSubstr("chmod o-w '" + folder.path().string() + "'"));
  ASSERT_EQ(::chmod(folder.path().c_str(), 01777), 0);
  EXPECT_EQ(refusal(), "opened");
}

TEST_F(PluginFileTest, RefusesALinkIntoAWorldWritableFolder) {
  const fs::path open_folder = folder.path() / "open";
  fs::create_directory(open_folder);
  ASSERT_EQ(::chmod(open_folder.c_str(), 0777), 0);
  fs::copy_file(kGood, open_folder / "target.so");
  fs::create_symlink(open_folder / "target.so", file);
  EXPECT_THAT(refusal(), HasSubstr("chmod o-w '" + open_folder.string() + "'"));
}

TEST_F(PluginFileTest, WarnsOfAForeignOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: gives a file away";
  fs::copy_file(kGood, file);
  ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(refusal(), "opened");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("belongs to user 12345, who is neither you nor root"));
}

TEST_F(PluginFileTest, RefusesTextCalledSo) {
  std::ofstream(file) << "INPUT(-lc)\n";
  EXPECT_THAT(refusal(), HasSubstr("it is not an ELF shared library"));
}

TEST_F(PluginFileTest, RefusesAnEmptyFile) {
  std::ofstream{file};
  EXPECT_THAT(refusal(), HasSubstr("it is not an ELF shared library"));
}

TEST_F(PluginFileTest, RefusesEveryCutFile) {
  const auto size = fs::file_size(kGood);
  for (const std::uintmax_t length : {std::uintmax_t{20}, std::uintmax_t{64}, size / 2, size - 1}) {
    fs::copy_file(kGood, file, fs::copy_options::overwrite_existing);
    fs::resize_file(file, length);
    EXPECT_THAT(refusal(), HasSubstr("it is cut short")) << length;
  }
}

TEST_F(PluginFileTest, RefusesAFileForAnotherMachine) {
  constexpr std::size_t kMachineOffset = 18;
  fs::copy_file(kGood, file);
  overwrite(kMachineOffset, std::string("\xf3\x00", 2));  // RISC-V
  EXPECT_THAT(refusal(), HasSubstr("it was built for another machine (ELF machine 243"));
}

TEST_F(PluginFileTest, RefusesAnElfFileThatIsNoSharedLibrary) {
  constexpr std::size_t kTypeOffset = 16;
  fs::copy_file(kGood, file);
  overwrite(kTypeOffset, std::string("\x01\x00", 2));  // relocatable object
  EXPECT_THAT(refusal(), HasSubstr("no shared library"));
}

TEST_F(PluginFileTest, HasAHashThatChangesWithItsContent) {
  const auto hash = [&] {
    PluginHost plugins(PluginSearch{{}, {folder.path()}}, log);
    plugins.open(Kind::kStrategy, "good");
    return plugins.loaded()[0].content_hash;
  };
  fs::copy_file(kGood, file);
  const std::string before = hash();
  EXPECT_EQ(hash(), before);
  fs::remove(file);
  fs::copy_file(kGood, file);
  std::ofstream(file, std::ios::app | std::ios::binary) << '\0';
  EXPECT_NE(hash(), before);
}

}  // namespace
}  // namespace cohort::host
