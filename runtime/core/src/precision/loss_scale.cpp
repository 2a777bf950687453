#include <cohort/loss_scale.hpp>

#include <cmath>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

constexpr float kGrowth = 2, kBackoff = 0.5;
constexpr int64_t kGrowthInterval = 2000;

}  // namespace

// torch._amp_update_scale_
void LossScale::update(bool overflow) {
  if (overflow) {
    factor *= kBackoff;
    finite_steps = 0;
    ++skipped;
    if (factor >= 1) return;
    throw TrainingFailed(
        "the loss scale has fallen below 1: gradients are not finite, whatever the scale; look for a NaN or an "
        "infinity "
        "in the loss, as with --precision=32, or lower the learning rate");
  }
  if (++finite_steps < kGrowthInterval) return;
  finite_steps = 0;
  if (std::isfinite(factor * kGrowth)) factor *= kGrowth;
}

}  // namespace cohort
