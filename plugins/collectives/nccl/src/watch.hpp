// A thread that looks at all links of a rank, so that what hangs or fails ends although everybody waits for a device.
// It is on the rank's device.
//
// Threads: any.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "link.hpp"

namespace cohort::nccl {

class Watch {
 public:
  explicit Watch(std::shared_ptr<const Surroundings> around) : around_(std::move(around)), thread_([this] { run(); }) {}
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Looks at the link as long as it lives.
  void add(const std::shared_ptr<Link>& link);

 private:
  std::shared_ptr<const Surroundings> around_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::weak_ptr<Link>> links_;
  bool is_over_ = false;
  std::thread thread_;  // begins when the rest is there

  void run();
};

}  // namespace cohort::nccl
