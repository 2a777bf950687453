#include "loop/evaluation.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "data/batch_source.hpp"
#include "failure/hook_place.hpp"
#include "module/evaluation_mode.hpp"
#include "report/screen.hpp"

namespace cohort {
namespace {

std::optional<int64_t> batches_of(BatchSource& source, const Loader& loader) {
  if (loader.stream) return std::nullopt;
  return source.available(std::numeric_limits<int64_t>::max());
}

RankReport run_batches(Runtime& runtime, Replicas& replicas, const EvaluationPass& pass) {
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
    try {
      replicas.evaluate(pass.what, board, batch, index);
    } catch (const MissingHook&) {
      if (!pass.is_optional) throw;
      return {.lacks_step = true};
    }
    progress.show(index + 1);
  }
  return {.totals = board.totals()};
}

}  // namespace

MergedReport evaluate(Runtime& runtime, Replicas& replicas, const EvaluationPass& pass,
                      const std::function<StopReason()>& stop) {
  RankReport report = run_batches(runtime, replicas, pass);
  report.stop = stop();
  return merge_reports(runtime.all_gather(to_text(report)));
}

}  // namespace cohort
