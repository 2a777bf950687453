#include "loop/evaluation.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "data/batch_source.hpp"

namespace cohort {
namespace {

/// Evaluation mode until the end of the scope; then every submodule is in its own earlier mode again.
class EvaluationMode {
 public:
  explicit EvaluationMode(Module& module) : module_(module), modes_(detail::training_modes(module)) { module_.eval(); }
  ~EvaluationMode() { detail::set_training_modes(module_, modes_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Module& module_;
  std::vector<bool> modes_;
};

std::vector<MetricTotal> run_batches(Runtime& runtime, Module& module, const EvaluationPass& pass) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(module);
  MetricBoard board(MetricBoard::Pass::kEvaluation);
  const Module::Recording recording(module, &board);
  const Shard shard{runtime.rank(), runtime.world_size(), runtime.options().seed, 0};
  const auto source = open_batches(pass.loader, shard, Purpose::kEvaluation, pass.limit, pass.name);
  for (int64_t index = 0; source->available(1) > 0 && !pass.interrupted(); ++index) {
    Batch batch = source->next();
    if (!runtime.device().is_cpu()) batch = batch.to(runtime.device());
    board.begin_batch(batch.batch_size());
    (module.*pass.step)(batch, index);
  }
  return board.totals();
}

}  // namespace

MergedReport evaluate(Runtime& runtime, Module& module, const EvaluationPass& pass,
                      const std::function<StopReason()>& stop) {
  const auto totals = run_batches(runtime, module, pass);
  return merge_reports(runtime.all_gather(to_text({stop(), totals})));
}

}  // namespace cohort
