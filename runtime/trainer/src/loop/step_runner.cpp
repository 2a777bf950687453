#include "loop/step_runner.hpp"

#include <cohort/host/error.hpp>

#include "module/step_access.hpp"
#include "replicas/replicas.hpp"

namespace cohort {

StepRunner::StepRunner(const FitContext& fit, const FitHooks& hooks, Listener listener)
    : fit_(fit), hooks_(hooks), listener_(std::move(listener)) {
  if (const auto warm_up = fit.options().graph) {
    graph_.emplace(fit.runtime, fit.module, fit.session, fit.profile, *warm_up);
  }
}

Votes StepRunner::run(const MicroBatch& micro, MetricBoard* board) {
  micro_ = micro;
  fit_.replicas.prepare(fit_.session, micro.batch);
  Votes votes;
  if (graph_ && micro.batch) {
    votes = run_by_graph(micro, board);
  } else if (!micro.batch || fit_.module.automatic_optimization()) {
    votes = run_phases(micro, board);
  } else {
    votes = run_by_hand(micro);
  }
  micro_.reset();
  return votes;
}

Votes StepRunner::run_phases(const MicroBatch& micro, MetricBoard* board) {
  Votes votes;
  StepDriver& session = fit_.session;
  for (size_t phase = 0; phase < session.optimizers().size(); ++phase) {
    detail::StepAccess::set_phase(fit_.module, phase);
    session.begin(phase);
    if (micro.batch) {
      const at::Tensor loss = fit_.replicas.train(session, board, *micro.batch, micro.index, micro.share);
      listener_.note_loss(loss, session.steps() + 1);
    }
    if (micro.ends_step) listener_.vote();
    wait_for_gradients();
    hooks_.call("on_after_backward", &Callback::on_after_backward);
    if (micro.ends_step) votes = votes | step_optimizer();
  }
  return votes;
}

Votes StepRunner::run_by_hand(const MicroBatch& micro) {
  fit_.session.begin_all();
  fit_.replicas.train_by_hand(*micro.batch, micro.index);
  listener_.vote();
  return fit_.session.exchange_votes();
}

// One batch and one optimizer: require_graph has seen to it.
Votes StepRunner::run_by_graph(const MicroBatch& micro, MetricBoard* board) {
  listener_.weights_may_change();  // a replay calls no hooks
  const uint64_t step = fit_.session.steps() + 1;
  Votes votes;
  const auto take = [&](const Batch& there) {
    fit_.session.begin(0);
    at::Tensor loss = fit_.replicas.train_there(fit_.session, there, micro.index);
    if (!graph_->is_capturing()) {
      listener_.note_loss(loss, step);
      listener_.vote();
    }
    wait_for_gradients();
    hooks_.call("on_after_backward", &Callback::on_after_backward);
    votes = step_optimizer();
    return loss;
  };
  const CapturedStep::Loop loop{take, listener_.vote};
  const Batch there = fit_.replicas.transfer(*micro.batch, micro.index);
  const auto [loss, how, bytes_sent] = graph_->run(there, listener_.is_last(), board, loop);
  if (how == CapturedStep::How::kTaken) {
    fit_.callbacks.require_empty_moments();
    return votes;
  }
  fit_.record.bytes_sent += bytes_sent;
  listener_.note_loss(loss, step);
  if (how == CapturedStep::How::kCaptured) return votes;
  listener_.vote();
  return fit_.session.count_replayed_step();
}

void StepRunner::wait_for_gradients() {
  const Timed timed(fit_.profile, Profile::kGradients);
  const StepPart part(hooks_.place("the averaging of gradients"));
  fit_.session.end_backward();
}

Votes StepRunner::step_optimizer() {
  const Timed timed(fit_.profile, Profile::kOptimizer);
  const StepPart part(hooks_.place("the optimizer's step"));
  return fit_.session.step();
}

StepHooks StepRunner::driver_hooks() {
  return {
      .before_backward =
          [this](const at::Tensor& loss) { hooks_.call("on_before_backward", &Callback::on_before_backward, loss); },
      .after_backward = [this] { hooks_.call("on_after_backward", &Callback::on_after_backward); },
      .before_optimizer_step =
          [this](size_t phase) {
            hooks_.call("on_before_optimizer_step", &Callback::on_before_optimizer_step, phase);
            listener_.weights_may_change();
          },
      .before_zero_grad =
          [this](size_t phase) { hooks_.call("on_before_zero_grad", &Callback::on_before_zero_grad, phase); },
      .runs_all_phases = fit_.module.automatic_optimization(),
      .evaluate = [this](size_t phase) { return evaluate_again(phase); }};
}

// Records nothing: the same values were logged, and metrics updated, when the step began.
at::Tensor StepRunner::evaluate_again(size_t phase) {
  const bool accumulates = fit_.limits.accumulate > 1;
  if (!fit_.module.automatic_optimization() || accumulates) {
    throw UserError(std::string("an optimizer that evaluates its loss several times in a step (LBFGS) cannot ") +
                    (accumulates ? "accumulate gradients over batches; leave --accumulate-grad-batches out"
                                 : "be stepped by hand; let automatic_optimization() be true"));
  }
  detail::StepAccess::set_phase(fit_.module, phase);
  const Module::Recording recording(fit_.module, nullptr);
  LoggedMetrics::Journal metrics;
  const LoggedMetrics::Journal::Watch watch(&metrics);
  at::Tensor loss = fit_.replicas.train(fit_.session, nullptr, *micro_->batch, micro_->index, 1.0);
  metrics.restore();
  return loss;
}

}  // namespace cohort
