// A lane: a thread that runs communication in the order it was submitted, while the step thread computes.
//
// Submitting, waiting, run() and run_here() may be called from any thread but the lane's own. A task that throws ends
// the lane: later tasks are dropped and every wait throws what it threw.
//
// On devices a lane has streams of its own, which are current while a task runs. What a task enqueues runs behind what
// the submitting thread had enqueued; what a thread enqueues after a wait runs behind what the tasks have. Nothing
// waits for a device but wait_for.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <cohort/host/flight_recorder.hpp>
#include <cohort/host/lane_streams.hpp>

namespace cohort::host {

class HostObject;

class Lane {
 public:
  using Task = std::function<void()>;
  using Ticket = uint64_t;

  /// `stall_timeout`: the longest that one task may take before a wait gives up. Tasks have deadlines of their own, so
  /// it only has to be longer than those. `host`: its flight recorder counts the lane's thread and the
  /// threads that wait for it; may be null.
  Lane(std::string name, std::chrono::nanoseconds stall_timeout, HostObject* host = nullptr,
       RankDevices devices = RankDevices());
  ~Lane();  ///< stops
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Drops what has not begun and joins the thread, once; nothing may be submitted later. Abort the communicators
  /// first, or it takes up to their deadline.
  void stop();
  Ticket submit(Task task);
  /// submit(), and returns when the task has returned, whatever became of it: what one thread submits to several lanes
  /// is run in that order. Throws PeerFailed after the stall timeout.
  Ticket submit_in_turn(Task task);
  /// Returns when the task and all before it are done. Throws what a task threw, PeerFailed after the stall timeout, or
  /// UserError for a ticket that submit() has not given.
  void wait(Ticket ticket);
  /// Waits for a bounded time. Returns whether they are done, also on the devices.
  bool wait_for(Ticket ticket, std::chrono::nanoseconds timeout);
  /// Everything submitted so far.
  void drain();
  /// Returns how often a thread has waited for tasks, whether or not they were done by then.
  uint64_t waits();
  /// True where nothing is running or queued.
  bool is_idle();
  /// Waits until nothing runs any more, whatever became of it.
  void settle();
  /// submit + wait; on the lane's own thread it simply runs.
  void run(Task task);
  /// As run(), but the calling thread is the lane for as long as the task takes: it costs no change of threads. What is
  /// submitted meanwhile begins afterwards.
  void run_here(const Task& task);
  /// On the lane's own thread, and in run_here.
  bool is_current_thread() const {
    const auto caller = std::this_thread::get_id();
    return caller == thread_.get_id() || caller == guest_.load(std::memory_order_relaxed);
  }

 private:
  std::string name_;
  std::chrono::nanoseconds stall_timeout_;
  HostObject* host_;
  std::mutex mutex_;
  std::condition_variable task_added_, task_done_;
  struct Queued {
    Task task;
    LaneStreams::Events behind;  // what the submitting thread had enqueued
  };
  LaneStreams streams_;
  std::deque<Queued> queue_;
  std::map<Ticket, LaneStreams::Events> ends_;  // behind the newest tasks; empty without devices
  uint64_t submitted_ = 0, completed_ = 0, waits_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
  std::atomic<std::thread::id> guest_{};      // the thread in run_here, or none
  std::optional<FlightRecorder::Rest> rest_;  // while the lane's thread has nothing that it can run
  bool is_waiting_ = false;                   // the lane's thread, for a task
  struct Waiter {
    Ticket ticket;
    std::optional<FlightRecorder::Rest> rest;  // until its task is done
  };
  std::vector<Waiter*> waiters_;
  std::thread thread_;

  void wait(std::unique_lock<std::mutex>& lock, Ticket ticket);
  void check_ticket(Ticket ticket) const;
  void await_return(std::unique_lock<std::mutex>& lock, Ticket ticket);
  void run_as_guest(const Task& task, const LaneStreams::Events& behind, LaneStreams::Events& end);
  void finish(std::exception_ptr failure, LaneStreams::Events end);
  LaneStreams::Events end_of(Ticket ticket) const;
  void follow_lane() noexcept;
  void note_rest();
  FlightRecorder* recorder() const;
  bool has_task() const { return !queue_.empty() && is_free(); }
  bool is_free() const { return guest_.load(std::memory_order_relaxed) == std::thread::id(); }
  void loop();
};

}  // namespace cohort::host
