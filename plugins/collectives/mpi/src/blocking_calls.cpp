#include "blocking_calls.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <cohort/sdk/error.hpp>

namespace cohort::mpi {

namespace {

constexpr std::chrono::milliseconds kLookAtState{10};

}  // namespace

struct BlockingCalls::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<int()> call;  // empty: none is asked for
  std::string stuck_in;
  int result = 0;
  bool is_done = false;
  bool is_over = false;
  std::mutex callers;  // one at a time
  std::thread thread;

  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return call || is_over; });
      if (!call) return;
      const std::function<int()> current = std::exchange(call, nullptr);
      lock.unlock();
      const int code = current();
      lock.lock();
      result = code;
      is_done = true;
      changed.notify_all();
    }
  }
};

BlockingCalls::BlockingCalls() : state_(std::make_shared<State>()) {
  state_->thread = std::thread([state = state_] { state->work(); });
}

BlockingCalls::~BlockingCalls() {
  std::unique_lock lock(state_->mutex);
  state_->is_over = true;
  state_->changed.notify_all();
  const bool is_stuck = !state_->stuck_in.empty();
  lock.unlock();
  if (is_stuck) {
    state_->thread.detach();
  } else {
    state_->thread.join();
  }
}

int BlockingCalls::run(const char* name, std::function<int()> call, Clock::time_point deadline,
                       const std::function<void()>& look) {
  const std::lock_guard turn(state_->callers);
  std::unique_lock lock(state_->mutex);
  if (state_->stuck_in.empty()) {
    state_->is_done = false;
    state_->call = std::move(call);
    state_->changed.notify_all();
    state_->stuck_in = name;
    const auto is_done = [this] { return state_->is_done; };
    while (!state_->changed.wait_until(lock, std::min(Clock::now() + kLookAtState, deadline), is_done)) {
      if (Clock::now() >= deadline) break;
      lock.unlock();
      look();
      lock.lock();
    }
    if (state_->is_done) {
      state_->stuck_in.clear();
      return state_->result;
    }
  }
  throw sdk::Error(COHORT_DEADLINE_EXCEEDED,
                   "MPI does not return from " + state_->stuck_in +
                       ": a rank has not called it, or MPI uses a network that does not connect the ranks; run mpirun "
                       "with --mca btl_base_verbose 20 to see which");
}

}  // namespace cohort::mpi
