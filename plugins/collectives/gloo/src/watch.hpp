// Calls that are made when a deadline passes, from one thread.
//
// Threads: any. A Guard whose destructor has returned is not called any more.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cohort::gloo {

class Watch {
 public:
  using Clock = std::chrono::steady_clock;

  /// Deadlines usually lie `usual` ahead: the thread sleeps that long while there is none, so that setting one wakes
  /// nobody.
  explicit Watch(std::chrono::nanoseconds usual);
  ~Watch();

  class Guard {
   public:
    /// `on_time` runs on the watch's thread, once, and may not use the watch.
    Guard(Watch& watch, Clock::time_point deadline, std::function<void()> on_time);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    friend class Watch;
    Watch& watch_;
    Clock::time_point deadline_;
    std::function<void()> on_time_;
    bool is_over_ = false;
  };

 private:
  const std::chrono::nanoseconds usual_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Guard*> guards_;
  Clock::time_point next_look_;
  bool stopping_ = false;
  std::thread thread_;

  void run();
};

}  // namespace cohort::gloo
