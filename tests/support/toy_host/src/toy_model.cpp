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
    slot.own_weights = zeros(parameter.numel, parameter.dtype);
    slot.weights = slot.own_weights.get();
    for (Slot::State* const state : {&slot.momenta, &slot.squares}) state->own = zeros(parameter.numel, COHORT_FLOAT64);
    for (uint32_t replica = 0; replica < replicas; ++replica) {
      Slot::Gradient& gradient = slot.gradients.emplace_back();
      gradient.own = zeros(parameter.numel, parameter.dtype);
      gradient.place = gradient.own.get();
    }
    slot.parameter = std::move(parameter);
    write("initialization", slot.weight_numbers(), std::vector<double>(slot.parameter.numel, first_weight));
    slots_.push_back(std::move(slot));
  }
  lr_factors_.assign(num_phases(), 1.0);
  refresh_views();
}

ToyModel::~ToyModel() = default;

ToyModel::Memory ToyModel::zeros(uint64_t numel, int32_t dtype) const {
  const host::RankDevices devices = device_.devices();
  const host::Device where = device_.device();
  const uint64_t nbytes = numel * sdk::size_of(dtype);
  Memory memory(devices.alloc(where, nbytes),
                [devices, where](void* freed) { devices.release_or_leave(where, freed); });
  devices.fill_with_zeros(where, memory.get(), nbytes);
  return memory;
}

std::vector<double> ToyModel::read(const Numbers& numbers) const {
  std::vector<std::byte> bytes(numbers.nbytes());
  device_.devices().copy_to_host(device_.device(), bytes.data(), numbers.data, bytes.size());
  std::vector<double> values(numbers.numel);
  for (uint64_t i = 0; i < numbers.numel; ++i) values[i] = load(bytes.data(), numbers.dtype, i);
  return values;
}

void ToyModel::write(const char* name, const Numbers& numbers, std::vector<double> values) const {
  device_.run(name, {numbers.writes()}, [&device = device_, numbers, values = std::move(values)] {
    for (uint64_t i = 0; i < numbers.numel; ++i) numbers.put(device, i, values[i]);
  });
}

void ToyModel::copy(const Numbers& to, const Numbers& from) const {
  if (to.data == from.data) return;
  device_.run("move", {from.reads(), to.writes()}, [&device = device_, to, from] {
    for (uint64_t i = 0; i < to.numel; ++i) to.put(device, i, from.at(device, i));
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
    view.device_type = device_.device().type;
    view.device_index = device_.device().index;
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
  device_.run("backward", {numbers.writes()},
              [&device = device_, numbers, adds, given = std::vector<double>(values.begin(), values.end())] {
                for (uint64_t i = 0; i < numbers.numel; ++i) {
                  numbers.put(device, i, (adds ? numbers.at(device, i) : 0.0) + given[i]);
                }
              });
}

void ToyModel::show_gradient(uint32_t parameter) {
  slots_[parameter].gradients[0].is_there = true;
}

void ToyModel::forget_gradient(uint32_t parameter) {
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
  if (replica == 0) device_.devices().fill_with_zeros(device_.device(), numbers.data, numbers.nbytes());
  if (replica > 0) slot.gradients[replica].is_there = false;
}

}  // namespace cohort::toy
