// A thread for the few calls of MPI that wait for other ranks by themselves: initialise, make a communicator, finalise.
// Whoever needs one waits for it until a deadline only. Initialise and finalise have to be called by the same thread,
// and are.
//
// Threads: any. After a call that did not end in time every later one fails at once.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace cohort::mpi {

using Clock = std::chrono::steady_clock;

class BlockingCalls {
 public:
  BlockingCalls();
  /// Leaves a thread behind that is stuck in a call.
  ~BlockingCalls();
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;

  /// Runs `call` and gives what it returns. Throws DEADLINE_EXCEEDED with its name, or what `look` throws, which is
  /// called again and again meanwhile. What `call` refers to must live as long as the thread.
  int run(const char* name, std::function<int()> call, Clock::time_point deadline, const std::function<void()>& look);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cohort::mpi
