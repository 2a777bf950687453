// The factor of losses in 16-bit training, as torch.amp.GradScaler has it.
#pragma once

#include <cstdint>

namespace cohort {

/// Grows after 2000 steps in a row whose gradients were finite, and is halved by each other step, which is skipped.
struct LossScale {
  float factor = 65536;
  int64_t finite_steps = 0;  ///< in a row, since the factor has changed
  uint64_t skipped = 0;      ///< steps

  /// Follows a step. Throws TrainingFailed if the factor falls below 1: then it is not the scale that is too large.
  void update(bool overflow);
  bool operator==(const LossScale&) const = default;
};

}  // namespace cohort
