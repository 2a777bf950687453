// Calls that are made when their time comes, from one thread.
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

  static constexpr Clock::time_point kNever = Clock::time_point::max();

  /// Calls usually lie `usual` ahead: the thread sleeps that long while there is none, so that setting one wakes
  /// nobody.
  explicit Watch(std::chrono::nanoseconds usual);
  ~Watch();

  class Guard {
   public:
    /// `on_time` runs on the watch's thread, may not use the watch, and gives when to call it again.
    Guard(Watch& watch, Clock::time_point first, std::function<Clock::time_point()> on_time);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    friend class Watch;
    Watch& watch_;
    Clock::time_point next_;
    std::function<Clock::time_point()> on_time_;
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
