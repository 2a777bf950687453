// Adapts a run to its first steps: buckets follow the gradients' order of arrival. With --autotune it also tries
// sizes of buckets, communication during backward and after it, and the settings of the strategy (cohort.tunable/1).
//
// Without --autotune results do not depend on it. Belongs to one rank's configured model; the same calls on every rank.
// Rank 0 decides.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <cohort/api/tunable.h>

#include "step/trial.hpp"

namespace cohort::host {

struct RankState;

/// A way to run a step.
struct StepMode {
  bool overlap = true;
  uint64_t bucket_size = 0;  // bytes; 0: the strategy's
  uint32_t setting = 0;      // of the strategy's table
  bool operator==(const StepMode&) const = default;
};

class Adaptation {
 public:
  explicit Adaptation(RankState& state);
  /// Between two steps, gradients are forgotten. Collective at the same steps on all ranks.
  void after_step();

 private:
  RankState& state_;
  const cohort_tunable_1* tunable_ = nullptr;  // with --autotune, where the strategy has one
  std::vector<StepMode> modes_;                // of the trial; the first is how it begins
  std::optional<Trial> trial_;
  size_t trials_ = 0;                          // begun
  StepMode mode_;                              // in use
  std::chrono::nanoseconds time_at_first_{0};  // of a step as training begins
  bool arrival_known_ = false;

  bool autotunes() const;
  bool has_nothing_to_overlap() const;
  void follow_arrival();
  void begin_trial();
  void end_trial();
  std::vector<StepMode> candidates() const;
  std::vector<StepMode> sizes_to_try() const;
  std::vector<StepMode> settings_to_try() const;
  size_t best_mode() const;
  void use(const StepMode& mode);
  void lay_out_again();
  std::string describe(size_t best) const;
  void report(std::chrono::nanoseconds time) const;
};

}  // namespace cohort::host
