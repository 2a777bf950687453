#include "plugin_host/probe.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <cohort/host/error.hpp>

#include "plugin_host/refuse.hpp"

namespace cohort::host {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::string_view text_of(OpenStage stage) {
  switch (stage) {
    case OpenStage::kLoading:
      return "while it was loaded";
    case OpenStage::kChecking:
      return "while its descriptor was read";
    default:
      return "in its init";
  }
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

// The child is quiet, dies with its parent, and a crash is a plain crash: no core file, no handler of the program.
void isolate_child() {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGINT}) ::signal(signal, SIG_DFL);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, stream);
}

[[noreturn]] void run_child(int pipe, const std::function<void(const StageReport&)>& open) {
  isolate_child();
  const auto report = [pipe](OpenStage stage) {
    while (::write(pipe, &stage, 1) < 0 && errno == EINTR) {
    }
  };
  try {
    open(report);
  } catch (...) {
    // The same happens in the parent, which then says what it is.
  }
  report(OpenStage::kDone);
  ::_exit(0);
}

// The last stage that the child has reported. Never waits: a process that the plugin has started may keep the pipe
// open.
OpenStage last_report(int pipe) {
  OpenStage stage = OpenStage::kLoading;
  while (::read(pipe, &stage, 1) == 1) {
  }
  return stage;
}

// How the child ended; nothing where it lives at the deadline, or where the program lets its children go unwaited. The
// child is not reaped yet, so that its number and its group stay its own.
std::optional<siginfo_t> wait_until(pid_t child, Clock::time_point deadline) {
  while (true) {
    siginfo_t end{};
    const int result = ::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOHANG | WNOWAIT);
    if (result == 0 && end.si_pid == child) return end;
    if ((result < 0 && errno != EINTR) || Clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

// Ends whatever the plugin has started, then the child.
void clean_up(pid_t child) {
  ::kill(-child, SIGKILL);
  ::kill(child, SIGKILL);
  wait_until(child, Clock::now() + std::chrono::seconds(1));
  ::waitpid(child, nullptr, WNOHANG);
}

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

std::string end_text(const std::optional<siginfo_t>& end, milliseconds deadline) {
  if (!end) return "was not done within " + std::to_string(deadline.count()) + " ms";
  if (end->si_code == CLD_EXITED) return "ended the process with exit code " + std::to_string(end->si_status);
  return "crashed with " + signal_text(end->si_status);
}

}  // namespace

void probe_plugin(const std::filesystem::path& file, milliseconds deadline,
                  const std::function<void(const StageReport&)>& open) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw TrainingFailed(std::string("no pipe can be made: ") + std::strerror(errno));
  Descriptor read_end(ends[0]), write_end(ends[1]);
  const auto until = Clock::now() + deadline;
  const pid_t child = ::fork();
  if (child < 0)
    throw TrainingFailed(std::string("no process can be made to try a plugin in: ") + std::strerror(errno));
  if (child == 0) run_child(write_end.get(), open);

  const auto end = wait_until(child, until);
  clean_up(child);
  const OpenStage stage = last_report(read_end.get());
  if (stage == OpenStage::kDone) return;
  refuse(file, "it " + end_text(end, deadline) + " " + std::string(text_of(stage)) +
                   "; ask its authors, or use another version");
}

}  // namespace cohort::host
