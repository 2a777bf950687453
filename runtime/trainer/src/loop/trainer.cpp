#include <cohort/trainer.hpp>

#include <cstdio>

#include <cohort/host/error.hpp>

#include "loop/evaluation.hpp"
#include "loop/fit_loop.hpp"
#include "loop/limits.hpp"
#include "module/model_table.hpp"
#include "report/results_text.hpp"
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
  if (!checkpoint.empty()) runtime.log().info("Last checkpoint: " + checkpoint.string());
}

void leave_on(const StopReason& stop) {
  if (stop.kind == StopReason::Kind::kSignal) throw Interrupted{static_cast<int>(stop.detail)};
  if (stop.kind != StopReason::Kind::kNotFinite) return;
  throw StoppedTogether("the training loss is not finite at step " + std::to_string(stop.detail) + " on rank " +
                        std::to_string(stop.rank) +
                        "; lower the learning rate, or look for a division by zero or a logarithm of zero");
}

// Ranks that loop differently would wait for each other in the middle of a step.
void agree_on_loop(Runtime& runtime, const LoopLimits& limits, bool has_validation) {
  const auto shown = [](const std::optional<int64_t>& limit) { return limit ? std::to_string(*limit) : "none"; };
  const auto shown_limit = [&](const BatchLimit& limit) {
    return limit.fraction ? std::to_string(*limit.fraction) : shown(limit.count);
  };
  runtime.agree(
      "loop",
      "accumulate-grad-batches = " + std::to_string(limits.accumulate) + "\nmax-epochs = " + shown(limits.max_epochs) +
          "\nmax-steps = " + shown(limits.max_steps) + "\nseed = " + std::to_string(runtime.options().seed) +
          "\nlimit-train-batches = " + shown_limit(limits.train) +
          "\nval-check-interval = " + (limits.val_check_interval ? shown_limit(*limits.val_check_interval) : "none") +
          "\nvalidation = " + (limits.validate && has_validation ? "yes" : "no") +
          "\ncheckpoint-dir = " + (runtime.options().checkpoint_dir.empty() ? "none" : "given") +
          "\ncheckpoint-every-n-steps = " + shown(runtime.options().checkpoint_every_n_steps) +
          "\nresume = " + (runtime.options().resume.empty() ? "none" : runtime.options().resume.string()) + "\n",
      "ranks were started with different options; give every rank the same");
}

void move_to_device(Runtime& runtime, Module& module) {
  if (!runtime.device().is_cpu()) module.to(runtime.device());
}

}  // namespace

Trainer::Trainer(Runtime& runtime, RunRecord& record, TrainerDefaults defaults)
    : runtime_(runtime), record_(record), defaults_(defaults) {}

void Trainer::fit(Module& module, DataModule& data) {
  const LoopLimits limits = resolve_limits(runtime_.options(), defaults_);
  move_to_device(runtime_, module);
  if (limits.report && runtime_.is_first()) {
    if (!limits.notice.empty()) runtime_.log().info(limits.notice);
    runtime_.log().info(model_table(module));
  }
  module.on_fit_start();
  const Optimizers optimizers = module.configure_optimizers();
  check(optimizers);
  agree_on_loop(runtime_, limits, !data.validation().empty() && limits.validation.count != 0);
  FitCheckpoints checkpoints(runtime_, limits, ++record_.fits);
  Replicas replicas(runtime_, module);
  Session session(runtime_, replicas.modules(), optimizers);
  session.clip_gradients(limits.clip);
  auto resumed = checkpoints.open(session);
  const StopReason stop =
      FitLoop(runtime_, record_, limits, replicas, data, session, checkpoints, std::move(resumed)).run();
  session.finish();
  module.on_fit_end();
  log_stop(runtime_, stop, session.steps(), checkpoints.last());
  record_.exit_reason = exit_reason(stop, limits, session.steps());
  if (!runtime_.options().summary_json.empty()) record_.weights_sha256 = weights_digest(module);
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
  Replicas replicas(runtime_, module);
  const Metrics means = cohort::evaluate(runtime_, replicas, pass).means;
  for (const auto& [name, value] : means) record_.metrics[name] = value;
  return means;
}

}  // namespace cohort
