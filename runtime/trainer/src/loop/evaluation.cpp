#include "loop/evaluation.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include <limits>

#include <cohort/host/error.hpp>

#include "data/batch_source.hpp"
#include "failure/hook_place.hpp"
#include "loop/gathered_report.hpp"
#include "loop/open_data.hpp"
#include "module/evaluation_mode.hpp"
#include "module/pass_hooks.hpp"
#include "module/step_access.hpp"
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

RankReport run_loader(Runtime& runtime, Replicas& replicas, const EvaluationPass& pass, size_t number,
                      HookedPass& hooks, MetricBoard& board) {
  const Loader& loader = pass.loaders[number];
  const std::string name = name_of_loader(pass.name, pass.loaders, number);
  const Module::Recording recording(replicas.module(), &board);
  const Shard shard{runtime.rank(), runtime.world_size(), runtime.options().seed, 0};
  const auto source =
      open_batches(loader, shard, Purpose::kEvaluation, pass.limit, name, /*begin=*/{}, runtime.device());
  EvaluationProgress progress(runtime, name, batches_of(*source, loader));
  for (int64_t index = 0; source->available(1) > 0 && !pass.interrupted(); ++index) {
    const Batch batch = source->next();
    board.begin_batch(batch.batch_size());
    hooks.batch_start(batch, index);
    try {
      replicas.evaluate(pass.what, board, batch, index);
    } catch (const MissingHook&) {
      if (!pass.is_optional) throw;
      return {.lacks_step = true};
    }
    hooks.batch_end(batch, index);
    progress.show(index + 1);
  }
  return {};
}

void add_means(MergedReport& merged, const Metrics& means, const MetricBoard& board, const std::string& suffix = "") {
  for (const auto& [name, mean] : means) {
    merged.means[name + suffix] = mean;
    if (board.is_on_bar(name)) merged.on_bar[name + suffix] = mean;
  }
}

MergedReport run_loaders(Runtime& runtime, Replicas& replicas, const EvaluationPass& pass, HookedPass& hooks,
                         const std::function<StopReason()>& stop) {
  size_t& loader_of_module = detail::StepAccess::place(replicas.module()).loader;
  MergedReport merged;
  for (size_t number = 0; number < pass.loaders.size() && !merged.lacks_step && !merged.stop.is_abrupt(); ++number) {
    loader_of_module = number;
    PassBoard of_pass;
    RankReport report = run_loader(runtime, replicas, pass, number, hooks, of_pass.board);
    report.stop = stop();
    // Only the rank that stops abruptly knows whether its pass is complete.
    const MergedReport part = gather_report(runtime, of_pass.board, std::move(report), /*is_complete=*/false);
    merged.stop = part.stop;
    merged.lacks_step = part.lacks_step;
    add_means(merged, part.means, of_pass.board, suffix_of(pass.loaders, number));
  }
  loader_of_module = 0;
  return merged;
}

/// Adds what the module logs at the end of the pass, which is of no batch and no loader.
void end_epoch(Runtime& runtime, Replicas& replicas, HookedPass& hooks, MergedReport& merged) {
  MetricBoard board(MetricBoard::Pass::kEpochEnd);
  {
    const Module::Recording recording(replicas.module(), &board);
    hooks.epoch_end();
  }
  add_means(merged, gather_report(runtime, board, {}, /*is_complete=*/true).means, board);
}

}  // namespace

MergedReport evaluate(Runtime& runtime, Replicas& replicas, const EvaluationPass& pass,
                      const std::function<StopReason()>& stop) {
  if (pass.loaders.empty()) {
    throw UserError("the data module has no " + pass.name + "; return a loader with a dataset or a stream");
  }
  HookedPass hooks(replicas.module(), pass.what.hooks);
  MergedReport merged;
  {
    const at::NoGradGuard no_grad;
    const EvaluationMode mode(replicas.modules());
    hooks.start();
    merged = run_loaders(runtime, replicas, pass, hooks, stop);
    if (!merged.lacks_step && !merged.stop.is_abrupt()) end_epoch(runtime, replicas, hooks, merged);
  }
  hooks.end(merged.stop.is_abrupt() ? Metrics() : merged.means);
  return merged;
}

std::string name_of_loader(const std::string& name, const std::vector<Loader>& loaders, size_t number) {
  const std::string suffix = suffix_of(loaders, number);
  return suffix.empty() ? name : name + " " + suffix.substr(1);
}

}  // namespace cohort
