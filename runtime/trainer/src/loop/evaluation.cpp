#include "loop/evaluation.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include <limits>

#include "data/batch_source.hpp"
#include "failure/hook_place.hpp"
#include "loop/gathered_report.hpp"
#include "module/evaluation_mode.hpp"
#include "report/screen.hpp"

namespace cohort {
namespace {

std::optional<int64_t> batches_of(BatchSource& source, const Loader& loader) {
  if (loader.stream) return std::nullopt;
  return source.available(std::numeric_limits<int64_t>::max());
}

/// The board of a pass, whose metrics begin the next one afresh also if this one fails.
struct PassBoard {
  MetricBoard board{MetricBoard::Pass::kEvaluation};
  PassBoard() = default;
  ~PassBoard() { board.metrics().reset(); }
  PassBoard(const PassBoard&) = delete;
  PassBoard& operator=(const PassBoard&) = delete;
};

RankReport run_batches(Runtime& runtime, Replicas& replicas, const EvaluationPass& pass, MetricBoard& board) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(replicas.modules());
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
  return {};
}

}  // namespace

MergedReport evaluate(Runtime& runtime, Replicas& replicas, const EvaluationPass& pass,
                      const std::function<StopReason()>& stop) {
  PassBoard of_pass;
  RankReport report = run_batches(runtime, replicas, pass, of_pass.board);
  report.stop = stop();
  // Only the rank that stops abruptly knows whether its pass is complete.
  return gather_report(runtime, of_pass.board, std::move(report), /*is_complete=*/false);
}

}  // namespace cohort
