// Tells the module and the callbacks of a fit what the driver does in a step, and of a failure.
#include <cohort/host/error.hpp>

#include "failure/failure.hpp"
#include "loop/fit_loop.hpp"
#include "loop/gradient_norm.hpp"
#include "module/step_access.hpp"

namespace cohort {

StopReason FitLoop::run(std::optional<LoadedCheckpoint> resumed) {
  try {
    return run_epochs(std::move(resumed));
  } catch (const std::exception& error) {
    if (!tells_of_lost_device()) tell_of(error);  // a callback that looks at a tensor would hide the cause
    throw;
  }
}

// A hook that fails in turn must not hide what it was told of.
void FitLoop::tell_of(const std::exception& error) {
  has_failed_ = true;
  try {
    call("on_exception", &Callback::on_exception, error);
  } catch (const std::exception& another) {
    runtime_.log().warning(another.what());
  }
}

StepHooks FitLoop::step_hooks() {
  return {
      .before_backward =
          [this](const at::Tensor& loss) { call("on_before_backward", &Callback::on_before_backward, loss); },
      .after_backward = [this] { call("on_after_backward", &Callback::on_after_backward); },
      .before_optimizer_step =
          [this](size_t phase) {
            call("on_before_optimizer_step", &Callback::on_before_optimizer_step, phase);
            if (kept_) kept_->weights_may_change();
          },
      .before_zero_grad = [this](size_t phase) { call("on_before_zero_grad", &Callback::on_before_zero_grad, phase); },
      .evaluate = [this](size_t phase) { return evaluate_again(phase); }};
}

// Records nothing: the same values were logged when the step began.
at::Tensor FitLoop::evaluate_again(size_t phase) {
  if (!module_.automatic_optimization() || limits_.accumulate > 1) {
    throw UserError(std::string("an optimizer that evaluates its loss several times in a step (LBFGS) cannot ") +
                    (limits_.accumulate > 1 ? "accumulate gradients over batches; leave --accumulate-grad-batches out"
                                            : "be stepped by hand; let automatic_optimization() be true"));
  }
  detail::StepAccess::set_phase(module_, phase);
  const Module::Recording recording(module_, nullptr);
  return replicas_.train(session_, nullptr, *batch_, batches_, 1.0);
}

double FitLoop::gradient_norm(size_t optimizer, double p) {
  return cohort::gradient_norm(session_, optimizer, p);
}

}  // namespace cohort
