// Watches all links of a rank on a thread of its own, so that an operation that hangs or fails ends although every
// other thread waits for a device.
//
// The thread uses the rank's device. It also detects the end of a rank's process on this machine, because NCCL may not
// report it.
//
// Threads: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "link.hpp"
#include "processes.hpp"

namespace cohort::nccl {

class Watch {
 public:
  explicit Watch(std::shared_ptr<const Surroundings> around);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Looks at the link as long as it lives.
  void add(const std::shared_ptr<Link>& link);

 private:
  std::shared_ptr<const Surroundings> around_;
  const Processes processes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::weak_ptr<Link>> links_;
  bool is_over_ = false;
  std::optional<std::chrono::steady_clock::time_point> loss_;  // when the first process was seen to have ended
  std::thread thread_;                                         // begins when the rest is there

  void run();
  std::vector<int> lost_ranks();
};

}  // namespace cohort::nccl
