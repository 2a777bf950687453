#include "optimizers.hpp"

#include <cmath>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/max.h>
#include <c10/util/Exception.h>

namespace fake_torch {
namespace {

// Throws if an argument from `maximize` on is set, because the kernels here know none of them.
void check_rest(const torch::jit::Stack& stack, size_t maximize) {
  TORCH_CHECK(
      !stack.at(maximize).toBool() && stack.at(stack.size() - 1).isNone() && stack.at(stack.size() - 2).isNone(),
      "the fake device steps without maximize, grad_scale and found_inf alone");
}

void step_sgd(torch::jit::Stack& stack) {
  const auto weights = stack.at(0).toTensorVector(), gradients = stack.at(1).toTensorVector();
  auto buffers = stack.at(2).toTensorVector();
  const double decay = stack.at(3).toDouble(), momentum = stack.at(4).toDouble(), lr = stack.at(5).toDouble();
  const double dampening = stack.at(6).toDouble();
  const bool nesterov = stack.at(7).toBool(), is_first = stack.at(9).toBool();
  check_rest(stack, 8);
  for (size_t i = 0; i < weights.size(); ++i) {
    at::Tensor change = decay == 0 ? gradients[i] : gradients[i].add(weights[i], decay);
    if (!buffers.empty()) {
      at::Tensor& buffer = buffers[i];
      if (is_first) {
        buffer.copy_(change);
      } else {
        buffer.mul_(momentum).add_(change, 1 - dampening);
      }
      change = nesterov ? change.add(buffer, momentum) : buffer;
    }
    weights[i].add_(change, -lr);
  }
  stack.clear();
}

template <bool kIsAdamW>
void step_adam(torch::jit::Stack& stack) {
  const auto weights = stack.at(0).toTensorVector(), gradients = stack.at(1).toTensorVector();
  const auto means = stack.at(2).toTensorVector(), squares = stack.at(3).toTensorVector();
  const auto largest = stack.at(4).toTensorVector(), counts = stack.at(5).toTensorVector();
  const double lr = stack.at(6).toDouble(), beta1 = stack.at(7).toDouble(), beta2 = stack.at(8).toDouble();
  const double decay = stack.at(9).toDouble(), eps = stack.at(10).toDouble();
  const bool amsgrad = stack.at(11).toBool();
  check_rest(stack, 12);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double steps = counts.at(i).item<double>();
    if (kIsAdamW && decay != 0) weights[i].mul_(1 - lr * decay);
    const at::Tensor gradient = kIsAdamW || decay == 0 ? gradients[i] : gradients[i].add(weights[i], decay);
    means[i].mul_(beta1).add_(gradient, 1 - beta1);
    squares[i].mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
    if (amsgrad) {
      at::Tensor most = largest.at(i);
      at::max_out(most, squares[i], most);
    }
    const double correction = std::sqrt(1 - std::pow(beta2, steps));
    const at::Tensor root = (amsgrad ? largest[i] : squares[i]).sqrt();
    weights[i].addcdiv_(means[i], root.div(correction).add_(eps), -lr / (1 - std::pow(beta1, steps)));
  }
  stack.clear();
}

}  // namespace

Kernel optimizer_kernel(const c10::OperatorName& name) {
  if (!name.overload_name.empty()) return nullptr;
  if (name.name == "aten::_fused_sgd_") return step_sgd;
  if (name.name == "aten::_fused_adam_") return step_adam<false>;
  return name.name == "aten::_fused_adamw_" ? step_adam<true> : nullptr;
}

}  // namespace fake_torch
