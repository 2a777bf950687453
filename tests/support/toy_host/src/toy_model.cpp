#include <cohort/toy_host/toy_model.hpp>

#include <algorithm>
#include <utility>

#include "toy_arrays.hpp"

namespace cohort::toy {

ToyModel::ToyModel(std::vector<ToyParameter> parameters, double first_weight, double learning_rate, double momentum,
                   uint32_t replicas)
    : ToyModel(std::move(parameters), first_weight, {.learning_rate = learning_rate, .momentum = momentum}, replicas) {}

ToyModel::ToyModel(std::vector<ToyParameter> parameters, double first_weight, ToyOptimizer optimizer, uint32_t replicas,
                   ToyDevice* device)
    : device_(device ? *device : host_memory_), optimizer_(std::move(optimizer)), replicas_(replicas) {
  for (ToyParameter& parameter : parameters) {
    Slot slot;
    const auto columns = static_cast<int64_t>(parameter.columns), numel = static_cast<int64_t>(parameter.numel);
    slot.shape = columns > 0 ? std::vector<int64_t>{numel / columns, columns} : std::vector<int64_t>{numel};
    slot.strides = columns > 0 ? std::vector<int64_t>{columns, 1} : std::vector<int64_t>{1};
    slot.device = parameter.in_host_memory ? &host_memory_ : &device_;
    slot.own_weights = zeros(*slot.device, parameter.numel, parameter.dtype);
    slot.weights = slot.own_weights.get();
    for (Slot::State* const state : {&slot.momenta, &slot.squares}) {
      state->own = zeros(*slot.device, parameter.numel, COHORT_FLOAT64);
    }
    for (uint32_t replica = 0; replica < replicas; ++replica) {
      Slot::Gradient& gradient = slot.gradients.emplace_back();
      gradient.own = zeros(*slot.device, parameter.numel, parameter.dtype);
      gradient.place = gradient.own.get();
    }
    slot.parameter = std::move(parameter);
    write("initialization", slot.weight_numbers(), std::vector<double>(slot.parameter.numel, first_weight));
    slots_.push_back(std::move(slot));
  }
  lr_factors_.assign(num_phases(), 1.0);
  for (uint32_t phase = 0; phase < num_phases(); ++phase) losses_.push_back(zeros(device_, 1, COHORT_FLOAT32));
  refresh_views();
}

ToyModel::~ToyModel() = default;

ToyModel::Memory ToyModel::zeros(ToyDevice& device, uint64_t numel, int32_t dtype) const {
  const host::RankDevices devices = device.devices();
  const host::Device where = device.device();
  const uint64_t nbytes = numel * sdk::size_of(dtype);
  Memory memory(devices.alloc(where, nbytes),
                [devices, where](void* freed) { devices.release_or_leave(where, freed); });
  devices.fill_with_zeros(where, memory.get(), nbytes);
  return memory;
}

std::vector<double> ToyModel::read(const Numbers& numbers) const {
  std::vector<std::byte> bytes(numbers.nbytes());
  ToyDevice& device = *numbers.device;
  device.devices().copy_to_host(device.device(), bytes.data(), numbers.data, bytes.size());
  std::vector<double> values(numbers.numel);
  for (uint64_t i = 0; i < numbers.numel; ++i) values[i] = load(bytes.data(), numbers.dtype, i);
  return values;
}

void ToyModel::write(const char* name, const Numbers& numbers, std::vector<double> values) const {
  numbers.device->run(name, {numbers.writes()}, [numbers, values = std::move(values)] {
    for (uint64_t i = 0; i < numbers.numel; ++i) numbers.put(i, values[i]);
  });
}

void ToyModel::copy(const Numbers& to, const Numbers& from) const {
  if (to.data == from.data) return;
  to.device->run("move", {from.reads(), to.writes()}, [to, from] {
    for (uint64_t i = 0; i < to.numel; ++i) to.put(i, from.at(i));
  });
}

void ToyModel::refresh_views() {
  views_.clear();
  for (Slot& slot : slots_) {
    cohort_tensor view{};
    view.data = slot.weights;
    view.shape = slot.shape.data();
    view.strides = slot.strides.data();
    view.name = slot.parameter.name.c_str();
    view.nbytes = slot.weight_numbers().nbytes();
    view.dtype = slot.parameter.dtype;
    view.ndim = static_cast<int32_t>(slot.shape.size());
    view.device_type = slot.device->device().type;
    view.device_index = slot.device->device().index;
    view.flags = COHORT_TENSOR_DENSE | (slot.parameter.requires_grad ? COHORT_TENSOR_REQUIRES_GRAD : 0u);
    view.id = static_cast<uint32_t>(views_.size());
    views_.push_back(view);
  }
}

uint32_t ToyModel::num_phases() {
  uint32_t count = 1;
  for (const Slot& slot : slots_) count = std::max(count, slot.parameter.phase + 1);
  return count;
}

uint32_t ToyModel::phase_of(uint32_t parameter) {
  return slots_[parameter].parameter.phase;
}

std::vector<double> ToyModel::weights(uint32_t parameter) const {
  return read(slots_[parameter].weight_numbers());
}

ToyState ToyModel::state() const {
  ToyState state;
  for (const Slot& slot : slots_) {
    state.weights.push_back(read(slot.weight_numbers()));
    state.momenta.push_back(read(slot.state_numbers(slot.momenta)));
    state.squares.push_back(read(slot.state_numbers(slot.squares)));
    state.steps.push_back(slot.steps);
  }
  return state;
}

void ToyModel::set_state(const ToyState& state) {
  for (size_t parameter = 0; parameter < slots_.size(); ++parameter) {
    Slot& slot = slots_[parameter];
    write("set_state", slot.weight_numbers(), state.weights[parameter]);
    write("set_state", slot.state_numbers(slot.momenta), state.momenta[parameter]);
    write("set_state", slot.state_numbers(slot.squares), state.squares[parameter]);
    slot.steps = state.steps[parameter];
  }
}

std::vector<double> ToyModel::gradient(uint32_t parameter) const {
  const Slot& slot = slots_[parameter];
  if (!slot.gradients[0].is_there) return {};
  return read(slot.gradient_numbers(0));
}

void ToyModel::add_gradient(uint32_t parameter, std::span<const double> values, uint32_t replica) {
  Slot& slot = slots_[parameter];
  const bool adds = std::exchange(slot.gradients[replica].is_there, true);
  const Numbers numbers = slot.gradient_numbers(replica);
  slot.device->run("backward", {numbers.writes()},
                   [numbers, adds, given = std::vector<double>(values.begin(), values.end())] {
                     for (uint64_t i = 0; i < numbers.numel; ++i) {
                       numbers.put(i, (adds ? numbers.at(i) : 0.0) + given[i]);
                     }
                   });
  if (replica == 0) add_loss(slot, {values.begin(), values.end()});
}

void ToyModel::add_loss(const Slot& slot, std::vector<double> gradient) {
  if (slot.device != &device_) return;  // work on one device alone is in order
  const Numbers loss{&device_, losses_[slot.parameter.phase].get(), COHORT_FLOAT32, 1}, weights = slot.weight_numbers();
  device_.run("loss", {loss.writes(), weights.reads()}, [loss, weights, gradient = std::move(gradient)] {
    double sum = loss.at(0);
    for (uint64_t i = 0; i < weights.numel; ++i) sum += weights.at(i) * gradient[i];
    loss.put(0, sum);
  });
}

const float* ToyModel::loss(uint32_t phase, uint32_t) {
  return static_cast<const float*>(losses_[phase].get());
}

void ToyModel::show_gradient(uint32_t parameter) {
  slots_[parameter].gradients[0].is_there = true;
}

void ToyModel::forget_gradient(uint32_t parameter) {
  void* const loss = losses_[slots_[parameter].parameter.phase].get();
  device_.devices().fill_with_zeros(device_.device(), loss, sizeof(float));
  for (Slot::Gradient& gradient : slots_[parameter].gradients) gradient.is_there = false;
}

void ToyModel::place_gradients(std::span<void* const> places) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot::Gradient& gradient = slots_[i].gradients[0];
    gradient.place = places[i] ? places[i] : gradient.own.get();
    gradient.is_there = false;
  }
}

void* ToyModel::gradient_data(uint32_t replica, uint32_t parameter) {
  const Slot::Gradient& gradient = slots_[parameter].gradients[replica];
  return replica == 0 || gradient.is_there ? gradient.place : nullptr;
}

void ToyModel::move_weights(std::span<void* const> places) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    void* const target = places[i] ? places[i] : slot.own_weights.get();
    copy(slot.at(target), slot.weight_numbers());
    slot.weights = target;
  }
  refresh_views();
}

void ToyModel::zero_gradient(uint32_t replica, uint32_t parameter) {
  Slot& slot = slots_[parameter];
  const Numbers numbers = slot.gradient_numbers(replica);
  ToyDevice& device = *slot.device;
  if (replica == 0) device.devices().fill_with_zeros(device.device(), numbers.data, numbers.nbytes());
  if (replica > 0) slot.gradients[replica].is_there = false;
}

}  // namespace cohort::toy
