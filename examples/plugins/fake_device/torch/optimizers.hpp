// The steps of many parameters in one kernel, with the bits of torch::optim's steps: what trains on the device can be
// compared with the CPU.
#pragma once

#include <ATen/core/operator_name.h>
#include <ATen/core/stack.h>

namespace fake_torch {

/// Takes the arguments from the stack, as the CPU has them, and leaves the results there.
using Kernel = void (*)(torch::jit::Stack& stack);

/// Returns the kernel for aten::_fused_sgd_, _fused_adam_ or _fused_adamw_; null for another operator.
Kernel optimizer_kernel(const c10::OperatorName& name);

}  // namespace fake_torch
