// A thread for each replica of the model, for as long as the replicas live.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cohort {

class ReplicaThreads {
 public:
  /// `threads_each`: intra-op threads of each.
  ReplicaThreads(size_t replicas, int threads_each);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  /// Runs work(i) on thread i, for the first `count` of them, with the caller's gradient mode and autocast state, and
  /// returns when all are done. Throws what the first of them threw, its replica named.
  void run(size_t count, const std::function<void(size_t)>& work);

 private:
  std::mutex mutex_;
  std::condition_variable round_begun_, round_done_;
  std::function<void(size_t)> work_;
  size_t count_ = 0, running_ = 0;
  uint64_t round_ = 0;
  bool stopping_ = false;
  std::vector<std::exception_ptr> failures_;
  std::vector<std::thread> threads_;

  void loop(size_t replica, int threads_each);
};

/// Throws the failure of a replica again, with its number where the message can be changed.
[[noreturn]] void throw_of_replica(const std::exception_ptr& failure, size_t replica);

}  // namespace cohort
