#include <cohort/trainer.hpp>

#include <cstdio>

#include <cohort/host/error.hpp>
#include <cohort/step_driver.hpp>

#include "callbacks/built_in.hpp"
#include "callbacks/callback_list.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/fit_checkpoints.hpp"
#include "data/batch_source.hpp"
#include "loop/evaluation.hpp"
#include "loop/fit_loop.hpp"
#include "module/model_table.hpp"
#include "module/step_access.hpp"
#include "report/fit_report.hpp"
#include "report/results_text.hpp"
#include "settings/limits.hpp"
#include "spawn/forked_loops.hpp"
#include "weights/weights_digest.hpp"

namespace cohort {
namespace {

void check(const Optimizers& optimizers) {
  if (optimizers.size() == 0) throw UserError("configure_optimizers returned no optimizer; return at least one");
}

std::string exit_reason(const StopReason& stop, const LoopLimits& limits, uint64_t steps) {
  if (!stop.is_none()) return stop.exit_reason;
  return limits.max_steps && steps >= static_cast<uint64_t>(*limits.max_steps) ? "max_steps" : "completed";
}

void log_stop(Runtime& runtime, const StopReason& stop, uint64_t steps, const std::filesystem::path& checkpoint) {
  if (!runtime.is_first()) return;
  const bool is_an_end = !stop.is_none() && stop.severity != StopReason::Severity::kFailure;
  if (is_an_end) runtime.log().info("Training ends after step " + std::to_string(steps) + ": " + stop.text);
  if (!checkpoint.empty()) runtime.log().info("Last checkpoint: " + shown(checkpoint));
}

void throw_if_abrupt(const StopReason& stop) {
  if (stop.severity == StopReason::Severity::kInterrupt) throw Interrupted{stop.signal};
  if (stop.severity == StopReason::Severity::kFailure) throw StoppedTogether(stop.text);
}

// Ranks with different loops would wait for each other in the middle of a step. The options were compared when the
// ranks met; these limits may come from the program instead.
void agree_on_loop(Runtime& runtime, const LoopLimits& limits, bool has_validation) {
  const auto limit_text = [](const std::optional<int64_t>& limit) { return limit ? std::to_string(*limit) : "none"; };
  const auto seconds = limits.max_time ? std::optional(int64_t{limits.max_time->count()}) : std::nullopt;
  runtime.agree("loop",
                "max-epochs = " + limit_text(limits.max_epochs) + "\nmax-steps = " + limit_text(limits.max_steps) +
                    "\nmax-time = " + limit_text(seconds) +
                    "\nvalidation = " + (limits.validate && has_validation ? "yes" : "no") + "\n",
                "ranks train for different times; give every rank the same limits and the same data");
}

void move_to_device(Runtime& runtime, Module& module) {
  if (!runtime.device().is_cpu()) module.to(runtime.device());
}

void tell_place(const Runtime& runtime, Module& module) {
  auto& place = detail::StepAccess::place(module);
  place.rank = runtime.rank();
  place.world_size = runtime.world_size();
}

/// Begins the count of a fit; a resumed one is told more when the checkpoint has been read.
void plan_steps(const Runtime& runtime, const LoopLimits& limits, Module& module, const std::optional<FitData>& data) {
  tell_place(runtime, module);
  auto& place = detail::StepAccess::place(module);
  place.step = 0;
  place.epoch = 0;
  const auto batches = data ? planned_batches(data->train, runtime.world_size(), limits.train) : std::nullopt;
  place.total_steps = planned_steps(limits, batches);
}

void introduce(Runtime& runtime, const LoopLimits& limits, const Module& module) {
  if (!limits.report || !runtime.is_first()) return;
  if (!limits.notice.empty()) runtime.log().info(limits.notice);
  runtime.log().info(model_table(module));
}

/// A fit in a hook of a fit could neither share its session nor end together with the other ranks.
void check_not_nested(const RunRecord& record) {
  if (record.is_fitting) {
    throw UserError("fit was called in a hook of a running fit; call it when that one has returned");
  }
}

class Fitting {
 public:
  explicit Fitting(RunRecord& record) : record_(record) { record.is_fitting = true; }
  ~Fitting() { record_.is_fitting = false; }
  Fitting(const Fitting&) = delete;
  Fitting& operator=(const Fitting&) = delete;

 private:
  RunRecord& record_;
};

/// The callbacks of a training, in the order of their calls: those that write come last, because others log.
std::vector<std::shared_ptr<Callback>> all_callbacks(Runtime& runtime, const LoopLimits& limits,
                                                     const std::vector<std::shared_ptr<Callback>>& given,
                                                     std::shared_ptr<FitCheckpoints> checkpoints) {
  std::vector<std::shared_ptr<Callback>> all{stop_on_signal()};
  if (limits.max_time) all.push_back(time_limit(*limits.max_time));
  all.insert(all.end(), given.begin(), given.end());
  const auto flagged = callbacks_of_flags(runtime.options(), checkpoints->folder());
  all.insert(all.end(), flagged.begin(), flagged.end());
  if (runtime.is_first() && limits.report) all.push_back(screen(runtime));
  if (runtime.is_first() && limits.report && limits.files && !runtime.options().log_dir.empty()) {
    all.push_back(metrics_file(runtime.options().log_dir));
  }
  all.push_back(std::move(checkpoints));
  return all;
}

}  // namespace

Trainer::Trainer(Runtime& runtime, RunRecord& record, TrainerDefaults defaults)
    : runtime_(runtime), record_(record), defaults_(std::move(defaults)) {}

// Connected ranks train the weights; returns what they agreed on. Collective.
StopReason Trainer::train(const LoopLimits& limits, Module& module, FitData data, const Optimizers& optimizers) {
  const Fitting fitting(record_);
  if (limits.accumulate > 1) runtime_.require_use(COHORT_USE_ACCUMULATION, limits.accumulate);
  if (!module.automatic_optimization()) runtime_.require_use(COHORT_USE_BY_HAND);
  agree_on_loop(runtime_, limits, !data.validation.empty() && limits.validation.count != 0);
  const auto checkpoints = std::make_shared<FitCheckpoints>(runtime_, limits, record_.fits);
  Replicas replicas(runtime_, module);
  const std::unique_ptr<StepDriver> driver = runtime_.make_driver(replicas.modules(), optimizers);
  StepDriver& session = *driver;
  session.clip_gradients(limits.clip);
  CheckpointWriter writer(session);
  auto resumed = checkpoints->open(session, writer);
  const CallbackList callbacks(all_callbacks(runtime_, limits, defaults_.callbacks, checkpoints));
  FitLoop loop(runtime_, record_, limits, replicas, std::move(data), session, callbacks, writer, record_.fits);
  const StopReason stop = loop.run(std::move(resumed));
  session.finish();
  record_.strategy_metrics = session.strategy_metrics();
  log_stop(runtime_, stop, session.steps(), writer.newest());
  record_.exit_reason = exit_reason(stop, limits, session.steps());
  return stop;
}

namespace {

void note_weights(const Runtime& runtime, const Module& module, RunRecord& record) {
  if (!runtime.options().summary_json.empty()) record.weights_sha256 = weights_digest(module);
}

}  // namespace

Metrics Trainer::fit(Module& module, DataModule& data) {
  check_not_nested(record_);
  const LoopLimits limits = resolve_limits(runtime_.options(), defaults_);
  move_to_device(runtime_, module);
  // Data is not opened in a process that forks its ranks: threads that it starts would be missing in them.
  std::optional<FitData> opened;
  if (runtime_.is_connected()) opened.emplace(data);
  plan_steps(runtime_, limits, module, opened);
  if (runtime_.is_connected()) introduce(runtime_, limits, module);
  module.on_fit_start();
  const Optimizers optimizers = module.configure_optimizers();
  check(optimizers);
  const CallbackList callbacks(defaults_.callbacks);
  ++record_.fits;
  const auto train_here = [&] { return train(limits, module, opened ? *opened : FitData(data), optimizers); };
  const auto train_in_fork = [&] {
    tell_place(runtime_, module);
    introduce(runtime_, limits, module);
    const StopReason stop = train_here();
    note_weights(runtime_, module, record_);
    return stop;
  };
  const StopReason stop = runtime_.is_connected()
                              ? train_here()
                              : fit_in_forks({runtime_, record_, module, optimizers, callbacks}, train_in_fork);
  module.on_fit_end();
  if (runtime_.is_connected()) note_weights(runtime_, module, record_);
  throw_if_abrupt(stop);
  return record_.metrics;
}

Metrics Trainer::validate(Module& module, DataModule& data) {
  return evaluate(module, {.what = {&Module::validation_step, &Module::validation_step_end},
                           .loader = data.validation(),
                           .limit = resolve_limits(runtime_.options(), defaults_).validation,
                           .name = "validation data"});
}

Metrics Trainer::test(Module& module, DataModule& data) {
  const Metrics means = evaluate(module, {.what = {&Module::test_step, &Module::test_step_end},
                                          .loader = data.test(),
                                          .limit = resolve_limits(runtime_.options(), defaults_).test,
                                          .name = "test data"});
  if (runtime_.is_first()) {
    std::fputs(results_table("Test metric", means).c_str(), stdout);
    std::fflush(stdout);
  }
  return means;
}

Metrics Trainer::evaluate(Module& module, const EvaluationPass& pass) {
  move_to_device(runtime_, module);
  const auto evaluate_here = [&] {
    tell_place(runtime_, module);
    Replicas replicas(runtime_, module);
    const Metrics means = cohort::evaluate(runtime_, replicas, pass).means;
    for (const auto& [name, value] : means) record_.metrics[name] = value;
    return means;
  };
  return runtime_.is_connected() ? evaluate_here() : evaluate_in_forks(runtime_, record_, evaluate_here);
}

}  // namespace cohort
