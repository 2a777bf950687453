#include <cohort/launch/rank_process.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/process.hpp>

namespace cohort::launch {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Everything that the child needs, made before the fork: afterwards it may not allocate.
struct ChildImage {
  ChildImage(const RankStart& start, const RankCommand& command)
      : program(command.program), arguments(command.arguments) {
    for (const auto& [name, value] : start.environment) environment.push_back(name + "=" + value);
    argv = pointers_to(arguments);
    envp = pointers_to(environment);
    inherited = start.inherited;
    streams = start.streams;
    has_own_session = start.has_own_session;
    ::sigemptyset(&no_signals);
  }
  ChildImage(const ChildImage&) = delete;
  ChildImage& operator=(const ChildImage&) = delete;

  std::string program;
  std::vector<std::string> arguments, environment;
  std::vector<char*> argv, envp;
  std::vector<int> inherited;
  std::optional<StandardStreams> streams;
  bool has_own_session = false;
  pid_t parent = ::getpid();
  sigset_t no_signals;
};

void die_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);  // it died before the signal was set
}

void take_streams(const StandardStreams& streams) {
  ::dup2(streams.in, STDIN_FILENO);
  ::dup2(streams.out, STDOUT_FILENO);
  ::dup2(streams.err, STDERR_FILENO);
}

/// Runs in the child. Only returns by ending the process; `report` gets errno and closes on success.
[[noreturn]] void become_rank(const ChildImage& image, int report) {
  die_with(image.parent);
  ::sigprocmask(SIG_SETMASK, &image.no_signals, nullptr);
  host::restore_write_signals();  // programs do not expect to inherit ignored signals
  if (image.has_own_session) ::setsid();
  if (image.streams) take_streams(*image.streams);
  for (const int descriptor : image.inherited) ::fcntl(descriptor, F_SETFD, 0);
  ::execve(image.program.c_str(), image.argv.data(), image.envp.data());
  const int reason = errno;
  const ssize_t written = ::write(report, &reason, sizeof reason);
  ::_exit(written == sizeof reason ? 2 : 1);
}

[[noreturn]] void throw_no_process(int rank, int reason) {
  throw UserError("cannot start rank " + std::to_string(rank) + " (" + std::strerror(reason) +
                  "); start fewer processes, or raise the limits of this user");
}

/// Runs in a forked child. What is thrown must not unwind into the parent's stack.
[[noreturn]] void leave_as(const std::function<int()>& be_a_rank) {
  int code = static_cast<int>(ExitCode::kTrainingFailed);
  try {
    code = be_a_rank();
    write_out_streams();
  } catch (...) {
  }
  ::_exit(code);
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
  if (end->signal == 0) {
    // By this code the loader says that a library is missing, and a shell that a command is.
    const bool found_nothing = end->exit_code == 127;
    const char* hint = found_nothing ? " (something was not found; cohort libtorch says if LibTorch is there)" : "";
    return shown() + " ended with exit code " + std::to_string(end->exit_code) + hint;
  }
  return shown() + " was ended by " + by_signal(end->signal);
}

void write_out_streams() {
  std::fflush(nullptr);
  std::cout.flush();  // has a buffer of its own where it does not share C's
}

RankProcess execute_rank(const RankStart& start, const RankCommand& command) {
  const ChildImage image(start, command);
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
    throw_no_process(start.rank, fork_failure);
  }
  if (const int reason = read_report(report[0]); reason != 0) {
    ::waitpid(pid, nullptr, 0);
    throw UserError("cannot execute " + host::in_quotes(command.program) + " (" + std::strerror(reason) +
                    "); give a program for this machine");
  }
  return {start.rank, pid, start.node, std::nullopt, 0};
}

RankProcess fork_rank(const RankStart& start, const CaughtSignals& signals, const std::function<int()>& be_a_rank) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw_no_process(start.rank, errno);
  if (pid > 0) return {start.rank, pid, start.node, std::nullopt, 0};
  die_with(parent);
  signals.give_back();
  ::clearenv();
  for (const auto& [name, value] : start.environment) ::setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  leave_as(be_a_rank);
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

}  // namespace cohort::launch
