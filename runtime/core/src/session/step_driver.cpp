#include <cohort/step_driver.hpp>

#include <string>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

void check_loss(const at::Tensor& loss) {
  if (!loss.defined()) throw UserError("backward was given no loss; training_step has to return the loss tensor");
  if (loss.numel() != 1) {
    throw UserError("the loss has " + std::to_string(loss.numel()) +
                    " elements and must have one; take its mean() or sum()");
  }
  if (!loss.requires_grad()) {
    throw UserError(
        "the loss does not depend on any parameter that requires a gradient; was it computed under NoGradGuard, "
        "detached, or is every parameter frozen?");
  }
}

}  // namespace

void StepDriver::backward(const at::Tensor& loss, double scale) {
  check_loss(loss);
  if (hooks_.before_backward) hooks_.before_backward(loss);
  run_backward({loss}, {root_gradient(loss, scale)});
  end_backward();
  if (hooks_.after_backward) hooks_.after_backward();
}

}  // namespace cohort
