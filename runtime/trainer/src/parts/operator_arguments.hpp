// The devices that an operator's arguments have to be on.
#pragma once

#include <cstddef>
#include <optional>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include "parts/operator_watch.hpp"

namespace cohort {

/// Returns whether the operator updates running statistics, which its schema does not say.
bool updates_statistics(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
/// Returns whether the operator writes to an argument or returns a view of it: then no copy can replace the argument.
bool stays_in_place(const c10::OperatorHandle& op, size_t argument, bool has_statistics);
/// Returns the device of the first argument that stays in place; nothing if all such arguments are on the CPU.
std::optional<c10::Device> device_in_place(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
/// Returns the value of the argument `device`; nothing if the operator has none, or none is given.
std::optional<c10::Device> asked_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
/// Returns the argument `generator`; null if the operator has none.
c10::IValue* generator_argument(const c10::OperatorHandle& op, torch::jit::Stack& stack);
/// Returns whether the operator takes tensors of any device, because its arguments say where the result is made.
bool chooses_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
/// Puts move(tensor) in the place of each argument, but for those that stay in place.
template <class Move>
void move_arguments(const c10::OperatorHandle& op, torch::jit::Stack& stack, const Move& move) {
  const size_t first = stack.size() - op.schema().arguments().size();
  const bool has_statistics = updates_statistics(op, stack);
  for (size_t i = first; i < stack.size(); ++i) {
    if (!stays_in_place(op, i - first, has_statistics)) replace_tensors(stack[i], move);
  }
}

}  // namespace cohort
