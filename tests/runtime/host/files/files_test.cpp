#include <cohort/host/files.hpp>

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <cohort/host/error.hpp>

#include "error_text.hpp"
#include "temporary_folder.hpp"

namespace {

// Global, because umask is given nothing but the mask.
constinit std::atomic<int> umask_changes{0};

}  // namespace

/// Stands in for the system's, and counts.
extern "C" mode_t umask(mode_t mask) noexcept {
  ++umask_changes;
  return reinterpret_cast<decltype(&umask)>(::dlsym(RTLD_NEXT, "umask"))(mask);
}

namespace cohort::host {
namespace {

namespace fs = std::filesystem;
using cohort::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string reading_fails(const fs::path& path, uint64_t max_bytes = 100) {
  return error_text<UserError>([&] { read_text_file(path, max_bytes); });
}

std::string writing_fails(const fs::path& path) {
  return error_text<UserError>([&] { write_file(path, "text"); });
}

std::string check_fails(const fs::path& path) {
  return error_text<UserError>([&] { check_output_file(path); });
}

fs::path make_pipe(const TemporaryFolder& folder) {
  const fs::path pipe = folder.path() / "pipe";
  EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  return pipe;
}

fs::path make_socket(const TemporaryFolder& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const fs::path name = folder.path() / "socket";
  std::strncpy(address.sun_path, name.c_str(), sizeof address.sun_path - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(descriptor);
  return name;
}

std::string text_in(int descriptor) {
  std::array<char, 100> text{};
  const ssize_t length = ::read(descriptor, text.data(), text.size());
  return {text.data(), length > 0 ? static_cast<size_t>(length) : 0};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(ReadFile, GivesTheTextOfARegularFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_text_file(folder.write("file", "some\ntext"), 9), "some\ntext");
  EXPECT_EQ(read_text_file(folder.write("empty", ""), 0), "");
  EXPECT_THAT(read_text_file("/proc/self/status", 100'000), HasSubstr("VmHWM"));  // a file that claims a length of 0
}

TEST(ReadFile, NeitherWaitsForAPipeNorReadsADeviceForEver) {
  const TemporaryFolder folder;
  const fs::path pipe = make_pipe(folder);
  EXPECT_EQ(reading_fails(pipe), "cannot read " + pipe.string() + ": it is not a regular file");
  EXPECT_EQ(reading_fails("/dev/zero"), "cannot read /dev/zero: it is not a regular file");
  EXPECT_EQ(reading_fails(folder.path()), "cannot read " + folder.path().string() + ": it is not a regular file");
  EXPECT_THAT(reading_fails(make_socket(folder)), HasSubstr("No such device or address"));
  EXPECT_THAT(reading_fails(folder.path() / "none"), HasSubstr("No such file or directory"));
}

TEST(ReadFile, HasALimitOfLength) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", std::string(101, 'x'));
  EXPECT_EQ(reading_fails(file), "cannot read " + file.string() + ": it is longer than 100 bytes");
  EXPECT_EQ(reading_fails(file, 101), "");
  EXPECT_THAT(reading_fails("/proc/self/status", 100), HasSubstr("it is longer than 100 bytes"));
}

TEST(ReadFile, NamesOddFilesOnOneLine) {
  EXPECT_EQ(reading_fails("/no\nsuch"), "cannot read /no\\x0asuch: No such file or directory");
  EXPECT_EQ(reading_fails(std::string("/dev/null\0x", 11)),
            "cannot read /dev/null\\x00x: a name cannot hold a NUL byte");
}

TEST(WriteFile, ReplacesARegularFileAndKeepsItsPermissions) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "old");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  write_file(file, "new");
  EXPECT_EQ(folder.read("file"), "new");
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  write_file(folder.path() / "other", "first");
  EXPECT_EQ(folder.read("other"), "first");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("file", "other"));
}

TEST(WriteFile, GivesANewFileThePermissionsThatTheUmaskAllows) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  const int changes = umask_changes.load();
  write_file(folder.path() / "file", "new");
  EXPECT_EQ(umask_changes.load(), changes) << "which other threads would see";
  ::umask(before);
  EXPECT_EQ(fs::status(folder.path() / "file").permissions(), fs::perms(0640));
}

TEST(WriteFile, FollowsLinks) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() / "far");
  folder.write("far/file", "old");
  fs::create_symlink("far/file", folder.path() / "link");
  fs::create_symlink("link", folder.path() / "link to link");
  fs::create_symlink("far/none yet", folder.path() / "dangling");
  write_file(folder.path() / "link to link", "new");
  write_file(folder.path() / "dangling", "made");
  EXPECT_EQ(folder.read("far/file"), "new");
  EXPECT_EQ(folder.read("far/none yet"), "made");
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_TRUE(fs::is_symlink(folder.path() / "dangling"));
  fs::create_symlink("loop", folder.path() / "loop");
  EXPECT_THAT(writing_fails(folder.path() / "loop"), HasSubstr("Too many levels of symbolic links"));
}

TEST(WriteFile, WritesIntoAPipeThatIsRead) {
  const TemporaryFolder folder;
  const fs::path pipe = make_pipe(folder);
  EXPECT_EQ(check_fails(pipe), "");
  EXPECT_EQ(writing_fails(pipe), "cannot write " + pipe.string() + ": nobody reads from it");
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  EXPECT_EQ(check_fails(pipe), "");
  EXPECT_EQ(writing_fails(pipe), "");
  EXPECT_EQ(text_in(reader), "text");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_THAT(names_in(folder.path()), ElementsAre("pipe"));
}

// A terminal: a mistake here could not replace a device of the machine.
TEST(WriteFile, WritesIntoADevice) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_TRUE(terminal >= 0 && ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0);
  const fs::path device = ::ptsname(terminal);
  EXPECT_EQ(check_fails(device), "");
  EXPECT_EQ(writing_fails(device), "");
  EXPECT_EQ(text_in(terminal), "text");
  EXPECT_TRUE(fs::is_character_file(device));
  ::close(terminal);
}

TEST(WriteFile, AppendsToWhatADescriptorLeadsTo) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "before ");
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  write_file("/proc/self/fd/" + std::to_string(descriptor), "text");
  ::close(descriptor);
  EXPECT_EQ(folder.read("file"), "before text");
}

TEST(WriteFile, RefusesWhatIsNoPlaceForText) {
  const TemporaryFolder folder;
  EXPECT_THAT(check_fails(folder.path()), HasSubstr("it is a folder; name a file"));
  EXPECT_THAT(check_fails(folder.path() / ""), HasSubstr("it is the name of a folder"));
  EXPECT_THAT(check_fails(make_socket(folder)), HasSubstr("it is a socket"));
  EXPECT_THAT(check_fails(folder.path() / "none" / "file"), HasSubstr("/none' does not exist or cannot be written"));
  EXPECT_THAT(check_fails(folder.write("file", "x") / "below"), HasSubstr("Not a directory"));
  EXPECT_THAT(check_fails("/proc/cohort"), HasSubstr("cannot write /proc/cohort"));
  EXPECT_EQ(check_fails(folder.path() / "file"), "");
  EXPECT_EQ(folder.read("file"), "x");
}

TEST(OutputFile, IsThereWhenItIsFinishedAndNotBefore) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("file", "old");
  { OutputFile(path).write("left"); }
  EXPECT_EQ(folder.read("file"), "old");
  OutputFile file(path);
  file.write("a piece");
  file.write(" and another");
  EXPECT_EQ(folder.read("file"), "old");
  file.finish();
  EXPECT_EQ(folder.read("file"), "a piece and another");
  EXPECT_THAT(names_in(folder.path()), ElementsAre("file"));
}

TEST(WriteFile, BeyondTheSizeLimitThrowsAndLeavesNothing) {
  const TemporaryFolder folder;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto message = error_text<UserError>([&] { write_file(folder.path() / "big", std::string(1000, 'x')); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, HasSubstr("cannot write " + (folder.path() / "big").string() + ": File too large"));
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
  struct sigaction action {};
  ::sigaction(SIGXFSZ, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
}

}  // namespace
}  // namespace cohort::host
