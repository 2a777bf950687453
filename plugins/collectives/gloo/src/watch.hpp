// Calls functions again and again, from one thread, so that waits in Gloo end now and then.
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
  explicit Watch(std::chrono::nanoseconds interval);
  ~Watch();

  class Guard {
   public:
    /// `call` runs on the watch's thread and may not use the watch.
    Guard(Watch& watch, std::function<void()> call);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    friend class Watch;
    Watch& watch_;
    std::function<void()> call_;
  };

 private:
  const std::chrono::nanoseconds interval_;
  std::mutex mutex_;
  std::condition_variable stop_;
  std::vector<Guard*> guards_;
  bool stopping_ = false;
  std::thread thread_;

  void run();
};

}  // namespace cohort::gloo
