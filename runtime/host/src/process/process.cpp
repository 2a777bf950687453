#include <cohort/host/process.hpp>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

constexpr std::array kWriteSignals{SIGPIPE, SIGXFSZ};
constexpr rlim_t kLeastStack = 256 << 10;  // of the main thread; glibc gives other threads the same
constexpr rlim_t kLeastOpenFiles = 64;     // two ranks need 24

std::string in_kib(rlim_t bytes) {
  return std::to_string(bytes >> 10) + " KiB";
}

void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // open() returns the lowest free descriptor, which is this one.
    if (::open("/dev/null", O_RDWR) == stream) continue;
    throw UserError("standard stream " + std::to_string(stream) +
                    " is closed, and /dev/null cannot be opened for it (" + std::strerror(errno) +
                    "); give the program standard streams");
  }
}

void require_stack() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeastStack) return;
  throw UserError("the stack may have only " + in_kib(limit.rlim_cur) + ", and a program needs " + in_kib(kLeastStack) +
                  "; raise the limit, for example with ulimit -s 8192");
}

}  // namespace

void prepare_process() {
  open_standard_streams();
  ignore_write_signals();
  require_stack();
}

void ignore_write_signals() {
  for (const int number : kWriteSignals) std::signal(number, SIG_IGN);
}

void restore_write_signals() noexcept {
  for (const int number : kWriteSignals) std::signal(number, SIG_DFL);
}

void raise_open_file_limit(uint64_t most) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, most);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void require_working_folder() {
  std::error_code failure;
  const std::filesystem::path folder = std::filesystem::current_path(failure);
  if (!failure) return;
  throw UserError("the working folder cannot be found (" + failure.message() +
                  "), it may have been deleted; change to a folder that exists");
}

void require_room_for_ranks() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kLeastOpenFiles) {
    throw UserError("this process may have only " + std::to_string(limit.rlim_cur) +
                    " files open, and several ranks need " + std::to_string(kLeastOpenFiles) +
                    " each; raise the limit, for example with ulimit -n 1024");
  }
  if (!has_own_proc()) {
    throw UserError(
        "/proc does not show the processes of this PID namespace, and ranks on one machine find each other there; "
        "mount "
        "it, for example with unshare --mount-proc");
  }
}

bool has_own_proc() {
  std::error_code failure;
  const auto self = std::filesystem::read_symlink("/proc/self", failure);
  return !failure && self == std::to_string(::getpid());
}

}  // namespace cohort::host
