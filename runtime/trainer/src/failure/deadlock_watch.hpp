// A thread that looks now and then whether this rank waits, tells the others so, and ends the wait where no rank can go
// on.
//
// A rank that computes or reads data never says that it waits, and nothing is sent while ranks train.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <cohort/host/rank_runtime.hpp>

namespace cohort {

class DeadlockWatch {
 public:
  /// `rank` outlives this. `has_store`: whether the store is worth asking, from any thread.
  DeadlockWatch(host::RankRuntime& rank, std::function<bool()> has_store);
  ~DeadlockWatch();
  DeadlockWatch(const DeadlockWatch&) = delete;
  DeadlockWatch& operator=(const DeadlockWatch&) = delete;

  /// Looks no more.
  void stop();
  /// What was found here or by rank 0, as one sentence; "" where nothing was. After stop().
  std::string verdict() const;

 private:
  host::RankRuntime& rank_;
  std::function<bool()> has_store_;
  host::Store* store_;
  host::FlightRecorder::Standing before_;
  std::string told_, all_before_;
  std::string verdict_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;

  void watch();
  void look();
  void tell(const std::string& text);
  void judge();
};

}  // namespace cohort
