#include "loop/stop_signal.hpp"

#include <atomic>

namespace cohort {
namespace {

// A handler is given nothing but the number, so what it sets must be reachable by name.
constinit std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_signal(int number) {
  received.store(number, std::memory_order_relaxed);
}

void install(int number, struct sigaction& previous) {
  sigaction(number, nullptr, &previous);
  if (previous.sa_handler == SIG_IGN) return;  // as under nohup: who started us wants it ignored
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  received.store(0, std::memory_order_relaxed);
  install(SIGINT, previous_interrupt_);
  install(SIGTERM, previous_terminate_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &previous_interrupt_, nullptr);
  sigaction(SIGTERM, &previous_terminate_, nullptr);
}

int StopSignal::pending() const noexcept {
  return received.load(std::memory_order_relaxed);
}

}  // namespace cohort
