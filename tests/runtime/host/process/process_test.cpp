#include <cohort/host/process.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

using ::testing::ExitedWithCode;

std::string refusal(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

/// Runs `work` in a child process, whose exit code is 0 if `work` returns true.
[[noreturn]] void be_a_child(const std::function<bool()>& work) {
  ::_exit(work() ? 0 : 1);
}

bool limit_to(__rlimit_resource resource, rlim_t value) {
  const rlimit limit{value, value};
  return ::setrlimit(resource, &limit) == 0;
}

TEST(Process, OpensStandardStreamsThatAreClosed) {
  for (const int count : {1, 2, 3}) {
    EXPECT_EXIT(be_a_child([count] {
                  for (int stream = 3 - count; stream < 3; ++stream) ::close(stream);
                  prepare_process();
                  const int next = ::open("/dev/null", O_RDONLY);
                  return next > 2 && ::write(STDOUT_FILENO, "x", 1) == 1 && ::write(STDERR_FILENO, "x", 1) == 1;
                }),
                ExitedWithCode(0), "");
  }
}

TEST(Process, TurnsALimitOfSizeIntoAnErrorOfWrite) {
  EXPECT_EXIT(be_a_child([] {
                prepare_process();
                const int file = ::open(std::filesystem::temp_directory_path().c_str(), O_TMPFILE | O_WRONLY, 0600);
                return limit_to(RLIMIT_FSIZE, 0) && ::write(file, "x", 1) < 0 && errno == EFBIG;
              }),
              ExitedWithCode(0), "");
}

TEST(Process, RefusesASmallStack) {
  EXPECT_EXIT(be_a_child([] {
                return limit_to(RLIMIT_STACK, 100 << 10) &&
                       refusal(prepare_process).starts_with("the stack may have only 100 KiB");
              }),
              ExitedWithCode(0), "");
}

TEST(Process, RaisesTheLimitOfOpenFilesAndRefusesASmallOne) {
  EXPECT_EXIT(be_a_child([] {
                const rlimit limit{20, 40};
                rlimit now{};
                if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
                raise_open_file_limit();
                return ::getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 40 &&
                       refusal(require_room_for_ranks).starts_with("this process may have only 40 files open");
              }),
              ExitedWithCode(0), "");
  EXPECT_EQ(refusal(require_room_for_ranks), "none");
}

TEST(Process, RaisesTheLimitOfOpenFilesNoFurtherThanWanted) {
  for (const auto& [soft, raised] : {std::pair(20, 100), std::pair(150, 150)}) {
    EXPECT_EXIT(be_a_child([soft = static_cast<rlim_t>(soft), raised = static_cast<rlim_t>(raised)] {
                  const rlimit limit{soft, 200};
                  rlimit now{};
                  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
                  raise_open_file_limit(100);
                  return ::getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == raised;
                }),
                ExitedWithCode(0), "");
  }
}

TEST(Process, KnowsThatTheWorkingFolderIsGone) {
  EXPECT_EQ(refusal(require_working_folder), "none");
  EXPECT_EXIT(be_a_child([] {
                std::string name = (std::filesystem::temp_directory_path() / "cohort-gone-XXXXXX").string();
                if (::mkdtemp(name.data()) == nullptr || ::chdir(name.c_str()) != 0) return false;
                std::filesystem::remove(name);
                return refusal(require_working_folder).starts_with("the working folder cannot be found");
              }),
              ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cohort::host
