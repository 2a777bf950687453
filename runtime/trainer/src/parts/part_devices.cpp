#include "parts/part_devices.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include <ATen/Context.h>
#include <c10/core/Event.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/graph_task.h>

namespace cohort {
namespace {

void follow(const c10::Stream& stream, const c10::Stream& earlier) {
  c10::Event end(earlier.device_type());
  end.record(earlier);
  end.block(stream);
}

}  // namespace

PartDevices::PartDevices(std::span<const c10::Device> of_parts, std::span<const c10::Device> others)
    : of_parts_(of_parts.begin(), of_parts.end()) {
  if (!are_apart()) return;
  const c10::impl::VirtualGuardImpl guard(of_parts_[0].type());
  const auto made = [&](c10::Device device) { return guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true); };
  for (const auto& devices : {of_parts, others}) {
    for (const c10::Device device : devices) {
      if (!streams_.contains(device.index())) streams_.emplace(device.index(), Streams{made(device), made(device)});
    }
  }
}

at::Tensor PartDevices::moved(const at::Tensor& tensor, c10::Device device) const {
  if (!is_elsewhere(tensor, device)) return tensor;
  const OperatorWatch::Pause pause;
  // Backward of a copy in another stream would not be ordered with sums that autograd makes in place.
  if (tensor.requires_grad() && at::GradMode::is_enabled()) return tensor.to(device);
  const c10::Device from = tensor.device();
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream maker = guard.getStream(from), user = guard.getStream(device);
  const c10::Stream out = streams_.at(from.index()).out, in = streams_.at(device.index()).in;
  follow(out, maker);
  at::Tensor copy;
  {
    const c10::StreamGuard source(out), target(in);
    copy = tensor.to(device, /*non_blocking=*/true);
  }
  // Memory belongs to the stream that it was asked for on, which must not use it again before the other one has.
  if (tensor.has_storage()) guard.recordDataPtrOnStream(tensor.storage().data_ptr(), out);
  if (copy.has_storage()) guard.recordDataPtrOnStream(copy.storage().data_ptr(), user);
  follow(user, in);
  follow(maker, out);
  return copy;
}

void PartDevices::bring(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::Device device) const {
  const size_t first = stack.size() - op.schema().arguments().size();
  const bool has_statistics = updates_statistics(op, stack);
  for (size_t i = first; i < stack.size(); ++i) {
    if (stays_in_place(op, i - first, has_statistics)) continue;
    replace_tensors(stack[i], [&](const at::Tensor& tensor) { return moved(tensor, device); });
  }
}

void PartDevices::wait(size_t part) const {
  if (!are_apart()) return;
  const c10::Device device = of_parts_[part];
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

KeptGenerators::KeptGenerators(std::span<const c10::Device> devices) {
  for (const c10::Device device : devices) {
    if (!device.is_cpu()) states_.try_emplace(device.index(), device, chance_on(device));
  }
}

KeptGenerators::~KeptGenerators() {
  for (const auto& [index, kept] : states_) set_chance(kept.first, kept.second);
}

at::Tensor chance_on(c10::Device device) {
  const at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.unsafeGetGeneratorImpl()->mutex_);
  return generator.get_state();
}

void set_chance(c10::Device device, const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.unsafeGetGeneratorImpl()->mutex_);
  generator.set_state(state);
}

void seed_chance(c10::Device device, uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.unsafeGetGeneratorImpl()->mutex_);
  generator.set_current_seed(seed);
}

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

bool chooses_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::string& name = op.schema().name();
  return asked_device(op, stack) || name == "aten::copy_" || name == "aten::_copy_from" ||
         name == "aten::_copy_from_and_resize";
}

NearNodes::NearNodes(const PartDevices& devices) : devices_(devices) {
  if (devices.are_apart() && devices.count() > 1) watch_.emplace(*this);
}

void NearNodes::call(const c10::OperatorHandle& op, c10::DispatchKeySet below, torch::jit::Stack& stack) {
  const bool is_of_node = torch::autograd::get_current_graph_task_id() != -1;
  if (is_of_node && !chooses_device(op, stack)) {
    const c10::Device here = c10::impl::VirtualGuardImpl(devices_[0].type()).getDevice();  // autograd sets it
    devices_.bring(op, stack, device_in_place(op, stack).value_or(here));
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
  if (last_ != devices_[0]) set_chance(devices_[0], chance_on(last_));
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
  if (device != last_) set_chance(device, chance_on(last_));
  last_ = device;
  devices_.bring(op, stack, device);
  op.redispatchBoxed(below, &stack);
}

}  // namespace cohort
