// The training as the last complete step has left it, for a checkpoint after a failure.
//
// Belongs to Snapshots, which gets one from the loop at each moment from which a later run could resume.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <cohort/step_driver.hpp>

#include "checkpoint/loop_state.hpp"
#include "metrics/metric_board.hpp"

namespace cohort {

/// Returns how often all weights were changed, as LibTorch counts it.
uint64_t versions_of_weights(const StepDriver& session);

class KeptStep {
 public:
  /// `board` gives the records of the state if they are needed, because that waits for the device; without one the
  /// state has them.
  KeptStep(const StepDriver& session, LoopState state, std::optional<MetricBoard> board);

  /// Call before an optimizer's step, which may fail halfway, and may change weights in ways that LibTorch cannot see.
  void weights_may_change() { may_have_changed_ = true; }
  void set_metric_values(const Metrics& values);
  uint64_t steps() const { return steps_; }
  /// Returns whether weights and count of steps are still those of the state.
  bool fits(const StepDriver& session) const;
  /// Waits for the device.
  LoopState state() const;

 private:
  LoopState state_;
  std::optional<MetricBoard> board_;
  uint64_t steps_;
  uint64_t versions_;  // of the weights, as LibTorch counts changes
  bool may_have_changed_ = false;
};

}  // namespace cohort
