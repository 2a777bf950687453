#include "check_optimizers.hpp"

#include <cohort/host/error.hpp>
#include <cohort/optimizer_kinds.hpp>
#include <cohort/precision.hpp>

namespace cohort {

void check_optimizers(const Optimizers& optimizers, const Runtime& runtime) {
  if (optimizers.size() == 0) {
    throw UserError(
        "configure_optimizers returned no optimizer; return one, e.g. torch::optim::SGD(parameters(), 0.1)");
  }
  for (const auto& optimizer : optimizers) {
    if (!needs_closure(*optimizer)) continue;
    runtime.require_use(COHORT_USE_CLOSURES);
    if (!has_loss_scale(runtime.options().precision)) continue;
    throw UserError(
        "--precision: losses in float16 are scaled, and LBFGS would compare losses of skipped evaluations; choose "
        "--precision=bf16-mixed, or another optimizer");
  }
  if (has_loss_scale(runtime.options().precision)) runtime.require_use(COHORT_USE_LOSS_SCALER);
  if (has_master_weights(runtime.options().precision)) {
    const bool is_half = *model_type(runtime.options().precision) == at::kHalf;
    runtime.require_use(COHORT_USE_PRECISION, is_half ? COHORT_FLOAT16 : COHORT_BFLOAT16);
  }
  if (optimizers.size() > 1) runtime.require_use(COHORT_USE_PHASES, static_cast<int64_t>(optimizers.size()));
}

}  // namespace cohort
