#include "parts/part_devices.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include <ATen/Context.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "parts/units.hpp"

namespace cohort {
namespace {

void follow(const c10::Stream& stream, const c10::Stream& earlier) {
  c10::Event end(earlier.device_type());
  end.record(earlier);
  end.block(stream);
}

void move_to(const at::Tensor& tensor, c10::Device device) {
  if (tensor.device() != device) tensor.set_data(tensor.detach().to(device));
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
  return copy;
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

std::optional<c10::Device> device_of_written(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  std::optional<c10::Device> device;
  for (size_t i = 0; i < arguments.size() && !device; ++i) {
    if (!arguments[i].alias_info() || !arguments[i].alias_info()->isWrite()) continue;
    visit_tensors(stack[first + i], [&](const at::Tensor& tensor) {
      if (!device && !tensor.is_cpu()) device = tensor.device();
    });
  }
  return device;
}

bool chooses_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack.size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "device" && !stack[first + i].isNone()) return true;
  }
  return op.schema().name() == "aten::copy_";
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
  if (const auto written = device_of_written(op, stack)) return *written;
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
  if (chooses_device(op, stack)) return op.redispatchBoxed(below, &stack);
  const size_t first = stack.size() - op.schema().arguments().size();
  const c10::Device device = device_for(op, stack, first);
  if (device != last_) set_chance(device, chance_on(last_));
  last_ = device;
  for (size_t i = first; i < stack.size(); ++i) {
    replace_tensors(stack[i], [&](const at::Tensor& tensor) { return devices_.moved(tensor, device); });
  }
  op.redispatchBoxed(below, &stack);
}

void spread(torch::nn::Module& module, std::span<const c10::Device> devices) {
  const std::vector<Unit> units = units_of(module);
  const auto bytes_of = [](const Unit& unit) {
    uint64_t bytes = 0;
    for (const at::Tensor& tensor : unit.tensors) bytes += tensor.nbytes();
    return bytes;
  };
  uint64_t all = 0, before = 0;
  for (const Unit& unit : units) all += bytes_of(unit);
  std::vector<size_t> parts;
  for (const Unit& unit : units) {
    const uint64_t bytes = bytes_of(unit);
    const uint64_t middle = before + bytes / 2;
    parts.push_back(all == 0 ? 0 : std::min<size_t>(middle * devices.size() / all, devices.size() - 1));
    before += bytes;
  }
  move_units(module, parts, PartDevices(devices));
}

// Buffers of modules without parameters are on the first device.
void move_units(torch::nn::Module& module, const std::vector<size_t>& parts, const PartDevices& devices) {
  std::unordered_set<const at::TensorImpl*> moved;
  const std::vector<Unit> units = units_of(module);
  for (size_t number = 0; number < units.size(); ++number) {
    for (const at::Tensor& tensor : units[number].tensors) {
      move_to(tensor, devices[parts[number]]);
      moved.insert(tensor.unsafeGetTensorImpl());
    }
  }
  for (const at::Tensor& buffer : module.buffers()) {
    if (buffer.defined() && !moved.contains(buffer.unsafeGetTensorImpl())) move_to(buffer, devices[0]);
  }
}

}  // namespace cohort
