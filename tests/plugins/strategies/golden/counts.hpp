// What one rank has asked of the counting collective; shared by the plugin and the test, which opens it in its process.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "thread_group.hpp"

namespace cohort::golden {

struct Cost {
  uint64_t calls = 0, nbytes = 0;
  bool operator==(const Cost&) const = default;
};

/// By name: "alloc", "release", "split", "all_reduce float32". Any thread: lanes add at the same time.
class Counts {
 public:
  void add(const std::string& what, uint64_t nbytes = 0) {
    const std::lock_guard lock(mutex_);
    Cost& cost = costs_[what];
    ++cost.calls;
    cost.nbytes += nbytes;
  }
  /// Returns what was counted since the last call.
  std::map<std::string, Cost> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(costs_, {});
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Cost> costs_;
};

/// The test makes one for each job and gives its address to the plugin as the option `job`.
struct CountedJob {
  explicit CountedJob(int world_size)
      : world(std::make_shared<ThreadGroup>(world_size)), ranks(static_cast<size_t>(world_size)) {}
  std::shared_ptr<ThreadGroup> world;
  std::vector<Counts> ranks;
};

}  // namespace cohort::golden
