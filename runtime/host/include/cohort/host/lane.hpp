// A lane: a thread that runs communication in the order it was submitted, while the step thread computes.
//
// Submitting, waiting and run() may be called from any thread but the lane's own. A work that throws ends the lane:
// later works are dropped and every wait throws what it threw.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace cohort::host {

class Lane {
 public:
  using Work = std::function<void()>;
  using Ticket = uint64_t;

  /// `stall_timeout`: the longest that one work may take before a wait gives up. Works have deadlines of their own, so
  /// it only has to be longer than those.
  Lane(std::string name, std::chrono::nanoseconds stall_timeout);
  /// Drops what has not begun and joins; abort the communicators first, or it takes up to their deadline.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Ticket submit(Work work);
  /// Returns when the work and all before it are done. Throws what a work threw, or PeerFailed after the stall timeout.
  void wait(Ticket ticket);
  /// Everything submitted so far.
  void drain();
  /// True where nothing is running or queued.
  bool is_idle();
  /// Waits until nothing runs any more, whatever became of it.
  void settle();
  /// submit + wait; on the lane's own thread it simply runs.
  void run(Work work);
  bool is_current_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  std::string name_;
  std::chrono::nanoseconds stall_timeout_;
  std::mutex mutex_;
  std::condition_variable work_added_, work_done_;
  std::deque<Work> queue_;
  uint64_t submitted_ = 0, completed_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::thread thread_;

  void loop();
};

}  // namespace cohort::host
