// Kernels in the place of composite ones.
#pragma once

#include <optional>
#include <tuple>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace fake_torch {

/// True for dense tensors of the CPU and of fake devices: c10 itself does not know that one may stand for the other,
/// and Module::to asks.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from);

/// Computes as on the CPU, not by native_dropout, so that the bits are the same; draws from the device's generator.
at::Tensor dropout(const at::Tensor& input, double p, bool train);
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p, std::optional<bool> train);

/// Returns the hidden state, the cell's state and the gates of an LSTM cell, from [batch, 4 * hidden] products without
/// bias. As those of CUDA, the bits are not the CPU's, which adds the biases in its product.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cell,
                                                         const std::optional<at::Tensor>& input_bias,
                                                         const std::optional<at::Tensor>& hidden_bias);

/// Run the CPU's convolution and its backward in the place of those `_overrideable`.
void convolution(const c10::OperatorHandle& op, torch::jit::Stack* stack);
void convolution_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace fake_torch
