// Turns SIGINT, SIGTERM, SIGHUP (of a lost terminal) and SIGUSR1 (of a scheduler, before the time limit) into a request
// to stop after the current step.
//
// The first signal sets a flag, another one more than a second later ends the process: launchers have the same rule.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

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
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

/// At most one lives at a time, on the main thread.
class StopOnSignal final : public Callback {
 public:
  StopOnSignal() {
    received.store(0, std::memory_order_relaxed);
    for (size_t i = 0; i < kNumbers.size(); ++i) install(kNumbers[i], previous_[i]);
  }
  ~StopOnSignal() override {
    received.store(0, std::memory_order_relaxed);
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
};

}  // namespace

std::shared_ptr<Callback> stop_on_signal() {
  return std::make_shared<StopOnSignal>();
}

int stop_signal() {
  return received.load(std::memory_order_relaxed);
}

}  // namespace cohort
