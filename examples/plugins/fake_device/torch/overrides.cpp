// Operators whose composite kernels the fallback would never be asked for, or would answer with other bits or numbers.
#include "overrides.hpp"

#include <ATen/core/IListRef.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include "device.hpp"
#include "fallback.hpp"

namespace fake_torch {
namespace {

// Returns 1 / (1 - p) in a share of 1 - p of the places and 0 in the others, as dropout on the CPU multiplies by.
at::Tensor noise_like(const at::Tensor& input, double p) {
  return at::empty_like(input).bernoulli_(1 - p).div_(1 - p);
}

}  // namespace

bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto is_dense = [](const at::Tensor& tensor) {
    return tensor.layout() == c10::kStrided && (tensor.is_cpu() || tensor.device().type() == kFake);
  };
  return is_dense(self) && is_dense(from);
}

at::Tensor dropout(const at::Tensor& input, double p, bool train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (p == 0 || !train || input.numel() == 0) return input;
  return p == 1 ? input.mul(at::zeros_like(input)) : input.mul(noise_like(input, p));
}

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (!train.value_or(true) || input.numel() == 0) {
    return {input.clone(), at::empty_like(input, input.options().dtype(at::kBool)).fill_(true)};
  }
  if (p == 1) return {at::zeros_like(input), at::zeros_like(input, input.options().dtype(at::kBool))};
  const at::Tensor noise = noise_like(input, p);
  return {input.mul(noise), noise.ne(0)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cell,
                                                         const std::optional<at::Tensor>& input_bias,
                                                         const std::optional<at::Tensor>& hidden_bias) {
  at::Tensor gates = hidden_gates.add(input_gates);
  for (const auto& bias : {input_bias, hidden_bias}) {
    if (bias && bias->defined()) gates = gates.add(*bias);
  }
  const auto parts = gates.unsafe_chunk(4, 1);
  const at::Tensor next = parts[1].sigmoid().mul(cell).add(parts[0].sigmoid().mul(parts[2].tanh()));
  return {parts[3].sigmoid().mul(next.tanh()), next, gates};
}

void convolution(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  run_on_cpu_as("aten::convolution", "", stack);
}

void convolution_backward(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  constexpr size_t kArguments = 10, kBiasSizes = 3;
  const auto first = stack->end() - kArguments;
  const int64_t channels = first->toTensor().size(1);
  stack->insert(first + kBiasSizes, c10::IValue(std::vector<int64_t>{channels}));
  run_on_cpu_as("aten::convolution_backward", "", stack);
}

}  // namespace fake_torch
