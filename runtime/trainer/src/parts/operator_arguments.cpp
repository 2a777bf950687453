#include "parts/operator_arguments.hpp"

#include <algorithm>
#include <string>

namespace cohort {

bool updates_statistics(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  bool has_statistics = false, trains = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i].name();
    has_statistics = has_statistics || name == "running_mean";
    const bool says = name == "training" || name == "train" || name == "use_input_stats";
    if (says && stack[first + i].isBool()) trains = trains || stack[first + i].toBool();
  }
  return has_statistics && trains;
}

bool stays_in_place(const c10::OperatorHandle& op, size_t argument, bool has_statistics) {
  const c10::Argument& one = op.schema().arguments()[argument];
  return one.alias_info() || (has_statistics && (one.name() == "running_mean" || one.name() == "running_var"));
}

std::optional<c10::Device> device_in_place(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size(), first = stack.size() - count;
  const bool has_statistics = updates_statistics(op, stack);
  std::optional<c10::Device> device;
  for (size_t i = 0; i < count && !device; ++i) {
    if (!stays_in_place(op, i, has_statistics)) continue;
    visit_tensors(stack[first + i], [&](const at::Tensor& tensor) {
      if (!device && !tensor.is_cpu()) device = tensor.device();
    });
  }
  return device;
}

std::optional<c10::Device> asked_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "device" && stack[first + i].isDevice()) return stack[first + i].toDevice();
  }
  return std::nullopt;
}

c10::IValue* generator_argument(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const auto found = std::ranges::find(arguments, "generator", &c10::Argument::name);
  return found == arguments.end() ? nullptr : &stack[stack.size() - static_cast<size_t>(arguments.end() - found)];
}

bool chooses_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::string& name = op.schema().name();
  return asked_device(op, stack) || name == "aten::copy_" || name == "aten::_copy_from" ||
         name == "aten::_copy_from_and_resize";
}

}  // namespace cohort
