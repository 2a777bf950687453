#include "rank_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Everything that the child needs, made before the fork: afterwards it may not allocate.
struct ChildImage {
  explicit ChildImage(const RankStart& start) : program(start.program), arguments(start.arguments) {
    for (const auto& [name, value] : start.environment) environment.push_back(name + "=" + value);
    argv = pointers_to(arguments);
    envp = pointers_to(environment);
    if (start.inherited) inherited = *start.inherited;
    ::sigemptyset(&no_signals);
  }
  ChildImage(const ChildImage&) = delete;
  ChildImage& operator=(const ChildImage&) = delete;

  std::string program;
  std::vector<std::string> arguments, environment;
  std::vector<char*> argv, envp;
  int inherited = -1;
  pid_t parent = ::getpid();
  sigset_t no_signals;
};

/// Runs in the child. Only returns by ending the process; `report` gets errno and closes on success.
[[noreturn]] void become_rank(const ChildImage& image, int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != image.parent) ::_exit(128 + SIGKILL);  // the parent died before the signal was set
  ::sigprocmask(SIG_SETMASK, &image.no_signals, nullptr);
  if (image.inherited >= 0) ::fcntl(image.inherited, F_SETFD, 0);
  ::execve(image.program.c_str(), image.argv.data(), image.envp.data());
  const int reason = errno;
  const ssize_t written = ::write(report, &reason, sizeof reason);
  ::_exit(written == sizeof reason ? 2 : 1);
}

/// The errno that kept the child from executing, or 0.
int read_report(int descriptor) {
  int reason = 0;
  ssize_t got = 0;
  do {
    got = ::read(descriptor, &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  ::close(descriptor);
  return got == sizeof reason ? reason : 0;
}

}  // namespace

std::string RankProcess::shown() const {
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + ") on " + node;
}

std::string RankProcess::shown_state() const {
  const auto by_signal = [](int number) {
    return "signal " + std::to_string(number) + " (" + ::strsignal(number) + ")";
  };
  if (!end) return shown() + (stopped_by == 0 ? " is running" : " is stopped by " + by_signal(stopped_by));
  if (end->signal == 0) return shown() + " ended with exit code " + std::to_string(end->exit_code);
  return shown() + " was ended by " + by_signal(end->signal);
}

RankProcess start_rank(const RankStart& start) {
  const ChildImage image(start);
  std::array<int, 2> report{};
  if (::pipe2(report.data(), O_CLOEXEC) != 0) {
    throw UserError("cannot start rank " + std::to_string(start.rank) + " (" + std::strerror(errno) +
                    "); raise the limit of open files");
  }
  const pid_t pid = ::fork();
  if (pid == 0) become_rank(image, report[1]);
  const int fork_failure = errno;
  ::close(report[1]);
  if (pid < 0) {
    ::close(report[0]);
    throw UserError("cannot start rank " + std::to_string(start.rank) + " (" + std::strerror(fork_failure) +
                    "); start fewer processes, or raise the limits of this user");
  }
  if (const int reason = read_report(report[0]); reason != 0) {
    ::waitpid(pid, nullptr, 0);
    throw UserError("cannot execute '" + start.program + "' (" + std::strerror(reason) +
                    "); give a program for this machine");
  }
  return {start.rank, pid, start.node, std::nullopt, 0};
}

bool reap(RankProcess& process) {
  if (process.end) return true;
  int status = 0;
  const pid_t ended = ::waitpid(process.pid, &status, WNOHANG | WUNTRACED | WCONTINUED);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  if (ended > 0 && (WIFSTOPPED(status) || WIFCONTINUED(status))) {
    process.stopped_by = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
    return reap(process);  // it may have ended since
  }
  if (ended < 0) {
    process.end = RankEnd{static_cast<int>(ExitCode::kTrainingFailed), 0};  // somebody else awaited it
  } else if (WIFSIGNALED(status)) {
    process.end = RankEnd{128 + WTERMSIG(status), WTERMSIG(status)};
  } else {
    process.end = RankEnd{WEXITSTATUS(status), 0};
  }
  return true;
}

}  // namespace cohort::host
