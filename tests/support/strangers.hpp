// Strangers: connect to every port of this machine's loopback on which this process listens, again and again.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace cohort::test {

class Strangers {
 public:
  /// On each connection one of these texts is sent, and nothing else. A connection stays open for a while.
  explicit Strangers(std::vector<std::string> texts, uint64_t most_calls = UINT64_MAX);
  ~Strangers();
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

  uint64_t calls() const { return calls_; }

 private:
  std::vector<std::string> texts_;
  const uint64_t most_calls_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<bool> is_over_{false};
  std::thread thread_;

  void run();
};

}  // namespace cohort::test
