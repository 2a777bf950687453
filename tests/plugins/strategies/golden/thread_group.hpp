// Ranks that are threads of one process: they meet, and the last one moves everybody's data.
//
// Any thread; the ranks of a group make the same calls in the same order. Every wait ends at its deadline, or when a
// rank aborts the group.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/sdk/error.hpp>

namespace cohort::golden {

class ThreadGroup {
 public:
  using Given = std::vector<void*>;  ///< by rank
  using Deadline = std::chrono::steady_clock::time_point;

  explicit ThreadGroup(int size) : given_(static_cast<size_t>(size)) {}

  /// Returns when every rank is here and the last one has run its `move` on what all of them give.
  void meet(int rank, void* given, Deadline deadline, const std::function<void(const Given&)>& move) {
    std::unique_lock lock(mutex_);
    given_[static_cast<size_t>(rank)] = given;
    if (++arrived_ == given_.size()) {
      move(given_);
      arrived_ = 0;
      ++meetings_;
      changed_.notify_all();
      return;
    }
    wait(lock, deadline, [this, before = meetings_] { return meetings_ != before; });
  }

  void send(int from, const cohort_message& message) {
    const auto* const data = static_cast<const std::byte*>(message.data);
    {
      const std::lock_guard lock(mutex_);
      messages_[{from, message.peer}].emplace_back(data, data + message.nbytes);
    }
    changed_.notify_all();
  }

  void receive(int to, const cohort_message& message, Deadline deadline) {
    std::unique_lock lock(mutex_);
    auto& queue = messages_[{message.peer, to}];
    wait(lock, deadline, [&queue] { return !queue.empty(); });
    const std::vector<std::byte> bytes = std::move(queue.front());
    queue.pop_front();
    if (bytes.size() != message.nbytes) throw sdk::failed_precondition("counting: a message has another size");
    if (!bytes.empty()) std::memcpy(message.data, bytes.data(), bytes.size());
  }

  void abort() {
    {
      const std::lock_guard lock(mutex_);
      is_aborted_ = true;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Given given_;
  size_t arrived_ = 0;
  uint64_t meetings_ = 0;
  bool is_aborted_ = false;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> messages_;  // from, to

  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Deadline deadline, Condition condition) {
    const bool came = changed_.wait_until(lock, deadline, [&] { return is_aborted_ || condition(); });
    if (is_aborted_) throw sdk::Error(COHORT_ABORTED, "counting: the group was aborted");
    if (!came) throw sdk::Error(COHORT_DEADLINE_EXCEEDED, "counting: a rank did not come");
  }
};

}  // namespace cohort::golden
