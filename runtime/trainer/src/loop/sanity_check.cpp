// Validation that is tried before a training. Nothing of it stays: no metric, no random number, no call of a callback
// but the vote on whether to stop.
#include <algorithm>

#include <cohort/module.hpp>

#include "checkpoint/generators.hpp"
#include "loop/evaluation.hpp"
#include "loop/fit_loop.hpp"

namespace cohort {

void FitLoop::check_sanity() {
  if (limits_.sanity_batches == 0 || !validates_ || step() > 0 || over_) return;
  const detail::GeneratorKeeper keeper;
  const NamedTensors generators = device_generator_states(runtime_.devices());
  const int64_t most = limits_.validation.count.value_or(limits_.sanity_batches);
  const EvaluationPass pass{.what = Replicas::kValidation,
                            .loaders = validation_,
                            .limit = {.count = std::min(most, limits_.sanity_batches), .fraction = {}},
                            .name = "validation data",
                            .is_optional = true,
                            .interrupted = [this] {
                              ask_callbacks();
                              return wish_.is_abrupt();
                            }};
  const auto merged = evaluate(runtime_, replicas_, pass, [this] { return wish_; });
  if (merged.lacks_step) leave_validation_out();
  adopt(merged.stop);
  set_device_generator_states(runtime_.devices(), TensorIndex(generators.begin(), generators.end()), "this training");
}

}  // namespace cohort
