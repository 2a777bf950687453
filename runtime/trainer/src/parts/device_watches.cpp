#include "parts/device_watches.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/graph_task.h>

#include "parts/device_generators.hpp"
#include "parts/operator_arguments.hpp"

namespace cohort {

NearNodes::NearNodes(const PartDevices& devices) : devices_(devices) {
  if (devices.are_apart() && devices.count() > 1) watch_.emplace(*this);
}

void NearNodes::call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) {
  const bool is_of_node = torch::autograd::get_current_graph_task_id() != -1;
  if (is_of_node && !chooses_device(op, stack)) {
    const c10::Device here = c10::impl::VirtualGuardImpl(devices_[0].type()).getDevice();  // autograd sets it
    const c10::Device device = device_in_place(op, stack).value_or(here);
    move_arguments(op, stack, [&](const at::Tensor& tensor) { return devices_.moved(tensor, device); });
  }
  op.redispatchBoxed(below, &stack);
}

NearWeights::NearWeights(const torch::nn::Module& module, const PartDevices& devices)
    : devices_(devices), last_(devices[0]) {
  if (!devices.are_apart()) return;
  for (const at::Tensor& tensor : module.parameters()) weights_.insert(tensor.unsafeGetTensorImpl());
  for (const at::Tensor& tensor : module.buffers()) weights_.insert(tensor.unsafeGetTensorImpl());
  watch_.emplace(*this);
}

NearWeights::~NearWeights() {
  if (last_ != devices_[0]) set_generator_state_of(devices_[0], generator_state_of(last_));
}

c10::Device NearWeights::device_for(const c10::OperatorHandle& op, const torch::jit::Stack& stack, size_t first) const {
  if (const auto written = device_in_place(op, stack)) return *written;
  std::optional<c10::Device> of_weights, of_first, of_number;
  for (size_t i = first; i < stack.size(); ++i) {
    visit_tensors(stack[i], [&](const at::Tensor& tensor) {
      if (tensor.is_cpu()) return;
      const bool is_weight = weights_.contains(tensor.unsafeGetTensorImpl());
      std::optional<c10::Device>& known = is_weight ? of_weights : tensor.dim() > 0 ? of_first : of_number;
      if (!known) known = tensor.device();
    });
  }
  return of_weights ? *of_weights : of_first ? *of_first : of_number.value_or(last_);
}

void NearWeights::call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) {
  const bool is_of_node = torch::autograd::get_current_graph_task_id() != -1;
  if (is_of_node || chooses_device(op, stack)) return op.redispatchBoxed(below, &stack);
  const size_t first = stack.size() - op.schema().arguments().size();
  const c10::Device device = device_for(op, stack, first);
  if (device != last_) set_generator_state_of(device, generator_state_of(last_));
  last_ = device;
  move_arguments(op, stack, [&](const at::Tensor& tensor) { return devices_.moved(tensor, device); });
  op.redispatchBoxed(below, &stack);
}

}  // namespace cohort
