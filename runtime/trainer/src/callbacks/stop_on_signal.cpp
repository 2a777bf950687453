// Turns SIGINT, SIGTERM, SIGHUP (of a lost terminal) and SIGUSR1 (of a scheduler, before the time limit) into a request
// to stop after the current step.
//
// The first signal sets a flag. Another signal more than a second later ends the process, as it does in launchers. A
// step that hangs never reads the flag. A thread therefore reads it, too: it logs the activity that the stop waits for,
// and ends the process if no activity begins or ends within --timeout.
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <cohort/host/activity.hpp>
#include <cohort/runtime.hpp>

#include "callbacks/built_in.hpp"

namespace cohort {
namespace {

// A handler is given nothing but the number, so what it sets must be reachable by name.
constinit std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);

constinit std::atomic<int64_t> received_at_ms{0};
static_assert(std::atomic<int64_t>::is_always_lock_free);

int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // may be called in a handler
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// What comes at once is one wish: to the whole process group and passed on by a launcher, or of two kinds.
constexpr int64_t kOneSignalMs = 1000;

extern "C" void note_signal(int number) {
  int before = 0;
  if (received.compare_exchange_strong(before, number, std::memory_order_relaxed)) {
    received_at_ms.store(now_ms(), std::memory_order_relaxed);
  } else if (now_ms() - received_at_ms.load(std::memory_order_relaxed) > kOneSignalMs) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
}

void install(int number, struct sigaction& previous) {
  sigaction(number, nullptr, &previous);
  const bool has_handler = (previous.sa_flags & SA_SIGINFO) != 0 || previous.sa_handler != SIG_DFL;
  if (number == SIGUSR1 && has_handler) return;  // the program has a use of its own for it
  if (previous.sa_handler == SIG_IGN) return;    // as under nohup: who started us wants it ignored
  if (previous.sa_handler == note_signal) previous.sa_handler = SIG_DFL;  // left by a fit that a signal has ended
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

/// Checks that the thread that constructed it stops after a signal.
class StopWatch {
 public:
  explicit StopWatch(Runtime& runtime) : log_(runtime.log()), longest_(runtime.options().timeout) {
    try {
      thread_ = std::thread([this] { watch(); });
    } catch (const std::system_error&) {
      log_.debug("a signal has no deadline, because there can be no more threads");
    }
  }
  ~StopWatch() {
    if (!thread_.joinable()) return;
    if (process_ != ::getpid()) {  // A fork does not have the thread, for which the condition's destructor would wait.
      thread_.detach();
      static_cast<void>(end_.release());
      return;
    }
    {
      const std::lock_guard lock(end_->mutex);
      end_->is_here = true;
    }
    end_->condition.notify_one();
    thread_.join();
  }
  StopWatch(const StopWatch&) = delete;
  StopWatch& operator=(const StopWatch&) = delete;

 private:
  struct End {
    std::mutex mutex;
    std::condition_variable condition;
    bool is_here = false;
  };

  void watch() {
    std::unique_lock lock(end_->mutex);
    while (!end_->condition.wait_for(lock, kBetweenLooks, [this] { return end_->is_here; })) look(received.load());
  }

  // Counts looks and not the clock, so that a stopped process (SIGSTOP) does not use up the deadline.
  void look(int signal) {
    const uint64_t changes = activities_.changes();
    const bool stays = signal != 0 && changes == changes_before_;
    changes_before_ = changes;
    stays_for_ = stays ? stays_for_ + kBetweenLooks : std::chrono::milliseconds(0);
    if (stays_for_ >= longest_) end(signal);
    if (stays_for_ >= kPatience && !std::exchange(has_said_, true)) {
      log_.warning("signal " + std::to_string(signal) + " asks to stop, which waits for " + activity() +
                   "; send it once more to end the program at once");
    }
  }

  [[noreturn]] void end(int signal) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest_).count();
    log_.error("signal " + std::to_string(signal) + " has asked to stop, and " + activity() + " was not over within " +
               std::to_string(seconds) + " s (--timeout); this step is not in any checkpoint");
    ::_exit(128 + signal);
  }

  std::string activity() const {
    const std::string text = activities_.text();
    return text.empty() ? "the training loop" : text;
  }

  static constexpr std::chrono::milliseconds kBetweenLooks{500}, kPatience{5000};

  host::Log& log_;
  const std::chrono::nanoseconds longest_;
  const pid_t process_ = ::getpid();
  const host::ActivityWatch activities_;
  uint64_t changes_before_ = 0;
  std::chrono::milliseconds stays_for_{0};
  bool has_said_ = false;
  std::unique_ptr<End> end_ = std::make_unique<End>();
  std::thread thread_;
};

/// At most one lives at a time, on the main thread.
class StopOnSignal final : public Callback {
 public:
  explicit StopOnSignal(Runtime& runtime) : watch_(runtime) {
    received.store(0, std::memory_order_relaxed);
    for (size_t i = 0; i < kNumbers.size(); ++i) install(kNumbers[i], previous_[i]);
  }
  // Keeps the handlers after a stop, so that a second signal of the same wish does not cut off the summary.
  ~StopOnSignal() override {
    if (received.load(std::memory_order_relaxed) != 0) return;
    for (size_t i = 0; i < kNumbers.size(); ++i) sigaction(kNumbers[i], &previous_[i], nullptr);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  std::string name() const override { return "stop_on_signal"; }
  void on_vote(Fit& fit) override {
    const int signal = received.load(std::memory_order_relaxed);
    if (signal != 0) fit.stop(stopped_by(signal, fit.runtime().rank()));
  }

 private:
  static constexpr std::array kNumbers{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

  std::array<struct sigaction, kNumbers.size()> previous_{};
  StopWatch watch_;
};

}  // namespace

std::shared_ptr<Callback> stop_on_signal(Runtime& runtime) {
  return std::make_shared<StopOnSignal>(runtime);
}

}  // namespace cohort
