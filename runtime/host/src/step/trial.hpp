// Which of several ways to run a step is the fastest: tries them in turn and keeps their times.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace cohort::host {

/// Every candidate gets two blocks of steps, the second ones in reverse order, so that a machine that becomes busier or
/// idler favours none. The first step of a block does not count: it pays for the change.
class Trial {
 public:
  static constexpr size_t kRounds = 2;
  static constexpr size_t kBlock = 5;

  explicit Trial(size_t candidates) : times_(candidates) {}
  bool is_over() const { return steps_ == times_.size() * kRounds * kBlock; }
  /// What the next step is run with. Not after the end.
  size_t current() const {
    const size_t block = steps_ / kBlock;
    return block < times_.size() ? block : kRounds * times_.size() - 1 - block;
  }
  /// The step in current() took this long.
  void add(std::chrono::nanoseconds time) {
    if (steps_ % kBlock != 0) times_[current()].push_back(time);
    ++steps_;
  }
  /// The lower quartile of its times: what a step takes when nothing disturbs it, but not the luckiest one.
  std::chrono::nanoseconds time_of(size_t candidate) const {
    auto times = times_[candidate];
    std::ranges::sort(times);
    return times[times.size() / 4];
  }

 private:
  std::vector<std::vector<std::chrono::nanoseconds>> times_;
  size_t steps_ = 0;
};

}  // namespace cohort::host
