// A thread of each rank that detects a deadlock: ranks that wait for each other in different operations.
//
// It checks twice a second whether all threads of this rank wait, reports that to the other ranks through the job's
// store, and aborts the operations of this rank once rank 0 has found that no rank can continue. A rank that computes
// or reads data does not wait in this sense and reports nothing; ranks that train without long waits send nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <cohort/host/connected_rank.hpp>

namespace cohort {

class DeadlockWatch {
 public:
  /// Starts the thread. `rank` outlives this. `has_store` returns whether the store can still be asked; any thread may
  /// call it. `longest_end`: how long stop() waits for an answer of the store before it gives the store up.
  DeadlockWatch(host::ConnectedRank& rank, std::function<bool()> has_store,
                std::chrono::milliseconds longest_end = std::chrono::seconds(5));
  ~DeadlockWatch();
  DeadlockWatch(const DeadlockWatch&) = delete;
  DeadlockWatch& operator=(const DeadlockWatch&) = delete;

  /// Ends the thread. May be called again.
  void stop();
  /// Returns the sentence about the deadlock that this rank or rank 0 has found, or "". Call it after stop().
  std::string verdict() const;

 private:
  host::ConnectedRank& rank_;
  std::function<bool()> has_store_;
  std::chrono::milliseconds longest_end_;
  host::Store* store_;
  host::FlightRecorder::Standing before_;
  std::string published_, all_before_;
  std::string verdict_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, has_ended_ = false;
  std::thread thread_;

  void watch();
  bool is_stopped();
  void check();
  void publish(const std::string& text);
  void judge();
};

}  // namespace cohort
