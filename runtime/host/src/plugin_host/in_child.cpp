#include <cohort/host/in_child.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

constexpr char kDone = '\n';  // behind the answer: an answer without it was cut off

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

[[noreturn]] void answer(int descriptor, int errors, const std::function<std::string()>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (errors >= 0) ::dup2(errors, STDERR_FILENO);
  // The parent reports a crash of this work itself, so the program's crash report must not.
  for (const int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::signal(crash, SIG_DFL);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) ::dup2(nowhere, STDOUT_FILENO);
  write_all(descriptor, work() + kDone);
  ::_exit(0);
}

/// What arrives until the other end closes; false where the deadline passed first.
bool read_until(int descriptor, std::chrono::steady_clock::time_point deadline, std::string& text) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd readable{descriptor, POLLIN, 0};
    const int ready = ::poll(&readable, 1, static_cast<int>(std::max<long>(0, left)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    std::array<char, 4096> chunk;
    const ssize_t got = ::read(descriptor, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

/// Passes on what the child has written to standard error, a file. Returns its last line if that is an error's, without
/// "error: ".
std::string pass_on(int errors) {
  std::string text;
  std::array<char, 4096> chunk;
  for (ssize_t got = 0; (got = ::pread(errors, chunk.data(), chunk.size(), static_cast<off_t>(text.size()))) > 0;) {
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  write_all(STDERR_FILENO, text);
  constexpr std::string_view kError = "error: ";
  const std::size_t last = text.rfind(kError);
  const bool is_last_line = last != std::string::npos && text.find('\n', last) == text.size() - 1;
  return is_last_line ? text.substr(last + kError.size(), text.size() - last - kError.size() - 1) : "";
}

std::string end_text(int status) {
  if (WIFSIGNALED(status)) {
    return "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
  }
  return "ended the process with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

std::string in_child(const std::string& what, std::chrono::milliseconds deadline,
                     const std::function<std::string()>& work) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    throw UserError("cohort: no pipe (" + std::string(std::strerror(errno)) + ")");
  const int errors = ::memfd_create("standard error", MFD_CLOEXEC);
  const pid_t child = ::fork();
  if (child == 0) answer(pipe[1], errors, work);
  ::close(pipe[1]);
  if (child < 0) {
    ::close(pipe[0]);
    ::close(errors);
    throw UserError("cohort: no process can be started; raise the limits of this user");
  }
  std::string text;
  const bool in_time = read_until(pipe[0], std::chrono::steady_clock::now() + deadline, text);
  ::close(pipe[0]);
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  const std::string error = pass_on(errors);
  ::close(errors);
  if (!in_time) {
    throw PluginRefused(what + " was not done within " + std::to_string(deadline.count() / 1000) + " s and was killed");
  }
  if (text.empty() || text.back() != kDone) throw PluginRefused(error.empty() ? what + " " + end_text(status) : error);
  text.pop_back();
  return text;
}

}  // namespace cohort::host
