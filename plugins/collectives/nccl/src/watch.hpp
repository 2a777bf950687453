// A thread that looks at all links of a rank, so that what hangs or fails ends although everybody waits for a device.
//
// Threads: any.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "link.hpp"

namespace cohort::nccl {

class Watch {
 public:
  Watch() : thread_([this] { run(); }) {}
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Looks at the link as long as it lives.
  void add(const std::shared_ptr<Link>& link);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::weak_ptr<Link>> links_;
  bool is_over_ = false;
  std::thread thread_;  // begins when the rest is there

  void run();
};

}  // namespace cohort::nccl
