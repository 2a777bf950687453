#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>
#include <cohort/runtime.hpp>

#include "callbacks/optimizer_label.hpp"

namespace cohort {

GradientNorm::GradientNorm(double p) : p_(p) {
  if (!(p > 0)) throw UserError("--track-grad-norm: a norm of gradients needs a p above 0; give 2 or inf");
}

// The value of a step that is logged; computing it waits for a device.
void GradientNorm::on_before_optimizer_step(Fit& fit, size_t optimizer) {
  const auto interval = static_cast<uint64_t>(fit.runtime().options().log_every_n_steps);
  if ((fit.step() + 1) % interval != 0) return;
  fit.log(label_of("grad_norm", fit.optimizers(), optimizer), fit.gradient_norm(optimizer, p_));
}

}  // namespace cohort
