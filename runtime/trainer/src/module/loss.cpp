#include "module/loss.hpp"

#include <cohort/host/error.hpp>

namespace cohort {

const at::Tensor& loss_of(const Output& output) {
  const Value* held = output.is_map() ? output.find("loss") : &output;
  if (!held || !held->is_tensor() || !held->tensor().defined()) {
    throw UserError(
        "training_step returned a " + output.kind() +
        "; return the loss as a tensor, or a map that holds it as \"loss\"" +
        (output.empty() ? ", and for a batch that is to be skipped a loss of zero, as 0 * output.sum()" : ""));
  }
  const at::Tensor& loss = held->tensor();
  if (loss.numel() != 1) {
    throw UserError("training_step returned a loss of " + std::to_string(loss.numel()) +
                    " elements; reduce it to one number, for example with mean()");
  }
  if (!loss.requires_grad()) {
    throw UserError(
        "training_step returned a loss that does not require grad; compute it from the module's parameters, without "
        "detach(), item() or NoGradGuard");
  }
  return loss;
}

}  // namespace cohort
