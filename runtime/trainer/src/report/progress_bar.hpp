// One line on a terminal that shows how far the epoch is.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace cohort {

class ProgressBar {
 public:
  /// Draws on standard error where `wanted` and it is a terminal; else every call returns at once.
  explicit ProgressBar(bool wanted);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// At most ten times in a second. `length`: batches of the epoch, unknown for a stream.
  void show(int64_t epoch, int64_t batches, std::optional<int64_t> length) {
    if (active_) draw(epoch, batches, length);
  }
  /// Before other output.
  void clear();

 private:
  void draw(int64_t epoch, int64_t batches, std::optional<int64_t> length);

  bool active_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point next_draw_{};
};

}  // namespace cohort
