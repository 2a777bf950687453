#include "plugin_host/probe.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <cohort/host/error.hpp>

#include "plugin_host/process_traits.hpp"
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

/// The report of the child process. It lies in shared memory, because a plugin may close every descriptor, a pipe's
/// too.
struct Report {
  std::atomic<OpenStage> stage{OpenStage::kLoading};
  std::atomic<int> closed{-1};                // a descriptor of the program that the plugin has closed, or -1
  std::atomic<const char*> changed{nullptr};  // a trait of the process that it has changed: static text, at the same
                                              // address in both processes
};

class SharedMemory {
 public:
  SharedMemory() : place_(::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (place_ == MAP_FAILED) throw TrainingFailed(std::string("no memory can be shared: ") + std::strerror(errno));
    new (place_) Report;
  }
  ~SharedMemory() { ::munmap(place_, sizeof(Report)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Report& report() const { return *static_cast<Report*>(place_); }

 private:
  void* place_;
};

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) >= 0;
}

std::vector<int> open_descriptors() {
  constexpr int kHighest = 1024;
  std::vector<int> open;
  for (int descriptor = 0; descriptor < kHighest; ++descriptor) {
    if (is_open(descriptor)) open.push_back(descriptor);
  }
  return open;
}

// The child is quiet, dies with its parent, and a crash is a plain crash: no core file, no handler of the program.
void isolate_child() {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGINT, SIGHUP}) {
    ::signal(signal, SIG_DFL);
  }
  std::set_terminate([] { ::raise(SIGABRT); });
  const int null = ::open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, stream);
}

[[noreturn]] void run_child(Report& report, const std::function<void(const StageReport&)>& open) {
  isolate_child();
  const std::vector<int> before = open_descriptors();
  const ProcessTraits traits;
  try {
    open([&](OpenStage stage) { report.stage = stage; });
  } catch (...) {
    // The same happens in the parent, which then says what it is.
  }
  const auto closed = std::ranges::find_if_not(before, is_open);
  if (closed != before.end()) report.closed = *closed;
  report.changed = traits.changed_in(ProcessTraits());
  report.stage = OpenStage::kDone;
  ::_exit(0);
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
  const SharedMemory shared;
  const Report& report = shared.report();
  const auto until = Clock::now() + deadline;
  const pid_t child = ::fork();
  if (child < 0)
    throw TrainingFailed(std::string("no process can be made to try a plugin in: ") + std::strerror(errno));
  if (child == 0) run_child(shared.report(), open);

  const auto end = wait_until(child, until);
  clean_up(child);
  if (report.closed >= 0) {
    refuse(file, "it closes files of the program (descriptor " + std::to_string(report.closed) +
                     ") while it is loaded or in its init; ask its authors, or use another version");
  }
  if (const char* const changed = report.changed) {
    refuse(file, std::string("it changes ") + changed +
                     " of the program while it is loaded or in its init; ask its authors, or use another version");
  }
  if (report.stage == OpenStage::kDone) return;
  refuse(file, "it " + end_text(end, deadline) + " " + std::string(text_of(report.stage)) +
                   "; ask its authors, or use another version");
}

}  // namespace cohort::host
