#include <cohort/trainer.hpp>

#include <cstdio>

#include <cohort/host/error.hpp>

#include "checkpoint/checkpoint_folder.hpp"
#include "loop/evaluation.hpp"
#include "loop/fit_loop.hpp"
#include "loop/limits.hpp"
#include "module/model_table.hpp"
#include "report/results_text.hpp"
#include "spawn/forked_loops.hpp"
#include "weights/weights_digest.hpp"

namespace cohort {
namespace {

void check(const Optimizers& optimizers) {
  if (optimizers.size() == 0) throw UserError("configure_optimizers returned no optimizer; return at least one");
}

std::string exit_reason(const StopReason& stop, const LoopLimits& limits, uint64_t steps) {
  if (stop.kind == StopReason::Kind::kSignal) return "signal";
  if (stop.kind == StopReason::Kind::kMaxTime) return "max_time";
  if (stop.kind == StopReason::Kind::kNotFinite) return "loss_not_finite";
  return limits.max_steps && steps >= static_cast<uint64_t>(*limits.max_steps) ? "max_steps" : "completed";
}

void log_stop(Runtime& runtime, const StopReason& stop, uint64_t steps, const std::filesystem::path& checkpoint) {
  if (!runtime.is_first()) return;
  const std::string after = " after step " + std::to_string(steps);
  if (stop.kind == StopReason::Kind::kMaxTime) runtime.log().info("Training ends" + after + ": --max-time is over");
  if (stop.kind == StopReason::Kind::kSignal) {
    runtime.log().info("Training ends" + after + ": rank " + std::to_string(stop.rank) + " received signal " +
                       std::to_string(stop.detail));
  }
  if (!checkpoint.empty()) runtime.log().info("Last checkpoint: " + shown(checkpoint));
}

void leave_on(const StopReason& stop) {
  if (stop.kind == StopReason::Kind::kSignal) throw Interrupted{static_cast<int>(stop.detail)};
  if (stop.kind != StopReason::Kind::kNotFinite) return;
  throw StoppedTogether("the training loss is not finite at step " + std::to_string(stop.detail) + " on rank " +
                        std::to_string(stop.rank) +
                        "; lower the learning rate, or look for a division by zero or a logarithm of zero");
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

/// Weights are trained by connected ranks; gives what they agreed on. Collective.
StopReason train(Runtime& runtime, RunRecord& record, const LoopLimits& limits, Module& module, DataModule& data,
                 const Optimizers& optimizers) {
  const Fitting fitting(record);
  if (limits.accumulate > 1) runtime.require_use(COHORT_USE_ACCUMULATION, limits.accumulate);
  if (!module.automatic_optimization()) runtime.require_use(COHORT_USE_BY_HAND);
  agree_on_loop(runtime, limits, !data.validation().empty() && limits.validation.count != 0);
  FitCheckpoints checkpoints(runtime, limits, record.fits);
  Replicas replicas(runtime, module);
  Session session(runtime, replicas.modules(), optimizers);
  session.clip_gradients(limits.clip);
  auto resumed = checkpoints.open(session);
  const StopReason stop =
      FitLoop(runtime, record, limits, replicas, data, session, checkpoints, std::move(resumed)).run();
  session.finish();
  record.strategy_metrics = session.strategy_metrics();
  log_stop(runtime, stop, session.steps(), checkpoints.last());
  record.exit_reason = exit_reason(stop, limits, session.steps());
  return stop;
}

void note_weights(const Runtime& runtime, const Module& module, RunRecord& record) {
  if (!runtime.options().summary_json.empty()) record.weights_sha256 = weights_digest(module);
}

}  // namespace

Trainer::Trainer(Runtime& runtime, RunRecord& record, TrainerDefaults defaults)
    : runtime_(runtime), record_(record), defaults_(defaults) {}

void Trainer::fit(Module& module, DataModule& data) {
  check_not_nested(record_);
  const LoopLimits limits = resolve_limits(runtime_.options(), defaults_);
  move_to_device(runtime_, module);
  if (runtime_.is_connected()) introduce(runtime_, limits, module);
  module.on_fit_start();
  const Optimizers optimizers = module.configure_optimizers();
  check(optimizers);
  ++record_.fits;
  const auto train_here = [&] { return train(runtime_, record_, limits, module, data, optimizers); };
  const auto train_in_fork = [&] {
    introduce(runtime_, limits, module);
    const StopReason stop = train_here();
    note_weights(runtime_, module, record_);
    return stop;
  };
  const StopReason stop =
      runtime_.is_connected() ? train_here() : fit_in_forks({runtime_, record_, module, optimizers}, train_in_fork);
  module.on_fit_end();
  if (runtime_.is_connected()) note_weights(runtime_, module, record_);
  leave_on(stop);
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
    Replicas replicas(runtime_, module);
    const Metrics means = cohort::evaluate(runtime_, replicas, pass).means;
    for (const auto& [name, value] : means) record_.metrics[name] = value;
    return means;
  };
  return runtime_.is_connected() ? evaluate_here() : evaluate_in_forks(runtime_, record_, evaluate_here);
}

}  // namespace cohort
