// A thread that looks at all links of a rank, so that what hangs or fails ends although everybody waits for a device.
// It is on the rank's device. Of ranks on this machine it also sees that their process ends, of which NCCL may say
// nothing.
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
