#include "loop/evaluation.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "data/batch_source.hpp"
#include "module/evaluation_mode.hpp"
#include "report/screen.hpp"

namespace cohort {
namespace {

std::optional<int64_t> batches_of(BatchSource& source, const Loader& loader) {
  if (loader.stream) return std::nullopt;
  return source.available(std::numeric_limits<int64_t>::max());
}

std::vector<MetricTotal> run_batches(Runtime& runtime, Replicas& replicas, const EvaluationPass& pass) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(replicas.modules());
  MetricBoard board(MetricBoard::Pass::kEvaluation);
  const Module::Recording recording(replicas.module(), &board);
  const Shard shard{runtime.rank(), runtime.world_size(), runtime.options().seed, 0};
  const auto source = open_batches(pass.loader, shard, Purpose::kEvaluation, pass.limit, pass.name,
                                   /*skipped=*/0, runtime.device());
  EvaluationProgress progress(runtime, pass.name, batches_of(*source, pass.loader));
  for (int64_t index = 0; source->available(1) > 0 && !pass.interrupted(); ++index) {
    const Batch batch = source->next();
    board.begin_batch(batch.batch_size());
    replicas.evaluate(pass.what, board, batch, index);
    progress.show(index + 1);
  }
  return board.totals();
}

}  // namespace

MergedReport evaluate(Runtime& runtime, Replicas& replicas, const EvaluationPass& pass,
                      const std::function<StopReason()>& stop) {
  const auto totals = run_batches(runtime, replicas, pass);
  return merge_reports(runtime.all_gather(to_text({stop(), totals})));
}

}  // namespace cohort
