#include <cohort/toy_host/toy_model.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/half.hpp>

namespace cohort::toy {
namespace {

double load(const void* data, int32_t dtype, uint64_t index) {
  if (dtype == COHORT_FLOAT64) return static_cast<const double*>(data)[index];
  if (dtype == COHORT_BFLOAT16) return sdk::to_float(static_cast<const sdk::BFloat16*>(data)[index]);
  if (dtype == COHORT_FLOAT16) return sdk::to_float(static_cast<const sdk::Half*>(data)[index]);
  return static_cast<const float*>(data)[index];
}

void store(void* data, int32_t dtype, uint64_t index, double value) {
  const auto single = static_cast<float>(value);
  if (dtype == COHORT_FLOAT64) {
    static_cast<double*>(data)[index] = value;
  } else if (dtype == COHORT_BFLOAT16) {
    static_cast<sdk::BFloat16*>(data)[index] = sdk::to_bfloat16(single);
  } else if (dtype == COHORT_FLOAT16) {
    static_cast<sdk::Half*>(data)[index] = sdk::to_half(single);
  } else {
    static_cast<float*>(data)[index] = single;
  }
}

}  // namespace

// An array somewhere, as a work of the device sees it.
struct ToyModel::Numbers {
  void* data = nullptr;
  int32_t dtype = COHORT_FLOAT64;
  uint64_t numel = 0;

  uint64_t nbytes() const { return numel * sdk::size_of(dtype); }
  double at(const ToyDevice& device, uint64_t i) const { return load(device.contents(data), dtype, i); }
  void put(const ToyDevice& device, uint64_t i, double value) const { store(device.contents(data), dtype, i, value); }
  ToyDevice::Access reads() const { return {data, nbytes(), false}; }
  ToyDevice::Access writes() const { return {data, nbytes(), true}; }
};

struct ToyModel::Slot {
  // State of the optimizer: double, or in the parameter's type where a strategy wants it.
  struct State {
    Memory own;
    void* place = nullptr;
  };
  struct Gradient {
    Memory own;
    void* place = nullptr;
    bool is_there = false;
  };
  ToyParameter parameter;
  std::vector<int64_t> shape, strides;
  Memory own_weights;
  void* weights = nullptr;
  State momenta, squares;
  int64_t steps = 0;                // done by its optimizer
  std::vector<Gradient> gradients;  // by replica

  Numbers at(void* data) const { return {data, parameter.dtype, parameter.numel}; }
  Numbers weight_numbers() const { return at(weights); }
  Numbers gradient_numbers(uint32_t replica) const { return at(gradients[replica].place); }
  Numbers state_numbers(const State& state) const {
    return state.place ? at(state.place) : Numbers{state.own.get(), COHORT_FLOAT64, parameter.numel};
  }
};

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

void ToyModel::step(uint32_t phase) {
  for (Slot& slot : slots_) {
    if (slot.parameter.phase == phase) step_slot(slot);
  }
}

void ToyModel::step(uint32_t, std::span<const uint32_t> parameters) {
  for (const uint32_t parameter : parameters) step_slot(slots_[parameter]);
}

void ToyModel::check_partial(uint32_t) {
  if (optimizer_.kind != "whole") return;
  throw UserError("the optimizer whole steps all of its parameters together; choose another optimizer or strategy");
}

void ToyModel::clip_gradients(uint32_t phase, const cohort_clip_args& args) {
  std::vector<Numbers> gradients;
  std::vector<ToyDevice::Access> accesses;
  for (const Slot& slot : slots_) {
    if (slot.parameter.phase != phase || !slot.gradients[0].is_there) continue;
    gradients.push_back(slot.gradient_numbers(0));
    accesses.push_back(gradients.back().writes());
  }
  const Numbers norm{args.norm, COHORT_FLOAT64, args.norm ? 1u : 0u};
  accesses.push_back(norm.writes());
  device_.run("clip", accesses, [&device = device_, by = args.by, limit = args.limit, norm, gradients] {
    double squares = 0;
    for (const Numbers& gradient : gradients) {
      for (uint64_t i = 0; i < gradient.numel; ++i) squares += gradient.at(device, i) * gradient.at(device, i);
    }
    if (norm.data) norm.put(device, 0, std::sqrt(squares));
    if (std::isinf(limit)) return;
    const double factor = std::min(1.0, limit / (std::sqrt(squares) + 1e-6));
    for (const Numbers& gradient : gradients) {
      for (uint64_t i = 0; i < gradient.numel; ++i) {
        const double value = gradient.at(device, i);
        gradient.put(device, i, by == COHORT_CLIP_NORM ? value * factor : std::clamp(value, -limit, limit));
      }
    }
  });
}

void ToyModel::step_slot(Slot& slot) {
  if (!slot.gradients[0].is_there) return;
  ++slot.steps;
  const double rate = optimizer_.learning_rate * lr_factors_[slot.parameter.phase];
  const Numbers weights = slot.weight_numbers(), gradients = slot.gradient_numbers(0);
  const Numbers momenta = slot.state_numbers(slot.momenta), squares = slot.state_numbers(slot.squares);
  const auto step_element = [&device = device_, o = optimizer_, is_adam = is_adam(),
                             t = static_cast<double>(slot.steps), rate, weights, gradients, momenta,
                             squares](uint64_t i) {
    double weight = weights.at(device, i), gradient = gradients.at(device, i);
    if (o.kind == "adamw") {
      weight -= rate * o.weight_decay * weight;
    } else {
      gradient += o.weight_decay * weight;
    }
    const double fresh = is_adam ? 1 - o.beta1 : 1.0;
    momenta.put(device, i, (is_adam ? o.beta1 : o.momentum) * momenta.at(device, i) + fresh * gradient);
    double change = momenta.at(device, i);
    if (is_adam) {
      squares.put(device, i, o.beta2 * squares.at(device, i) + (1 - o.beta2) * gradient * gradient);
      const double square = squares.at(device, i) / (1 - std::pow(o.beta2, t));
      change = change / (1 - std::pow(o.beta1, t)) / (std::sqrt(square) + o.eps);
    }
    weights.put(device, i, weight - rate * change);
  };
  device_.run("step", {gradients.reads(), weights.writes(), momenta.writes(), squares.writes()},
              [step_element, numel = weights.numel] {
                for (uint64_t i = 0; i < numel; ++i) step_element(i);
              });
}

std::optional<double> ToyModel::hyper(uint32_t, std::string_view name) {
  const ToyOptimizer& o = optimizer_;
  if (name == "lr") return o.learning_rate;
  if (name == "weight_decay") return o.weight_decay;
  if (name == "momentum" && !is_adam()) return o.momentum;
  if (name == "beta1" && is_adam()) return o.beta1;
  if (name == "beta2" && is_adam()) return o.beta2;
  if (name == "eps" && is_adam()) return o.eps;
  if (name == "warmup_steps") return o.warmup_steps;
  return std::nullopt;
}

std::optional<int64_t> ToyModel::counted_steps(uint32_t parameter) {
  return is_adam() ? std::optional(slots_[parameter].steps) : std::nullopt;
}

void ToyModel::set_counted_steps(uint32_t parameter, int64_t steps) {
  if (!is_adam()) throw UserError("sgd counts no steps");
  slots_[parameter].steps = steps;
}

void ToyModel::move_state(const std::string& name, std::span<void* const> places) {
  const bool is_momentum =
      name == (is_adam() ? "exp_avg" : "momentum_buffer") && (is_adam() || optimizer_.momentum != 0);
  if (!is_momentum && !(is_adam() && name == "exp_avg_sq")) {
    throw UserError("the optimizer " + optimizer_.kind + " with these settings keeps no '" + name + "'");
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot::State& state = is_momentum ? slots_[i].momenta : slots_[i].squares;
    const Numbers before = slots_[i].state_numbers(state);
    state.place = places[i];
    copy(slots_[i].state_numbers(state), before);
  }
}

bool ToyModel::has_state(uint32_t parameter) const {
  return slots_[parameter].steps > 0;
}

std::vector<uint32_t> ToyModel::with_state() {
  std::vector<uint32_t> parameters;
  for (uint32_t parameter = 0; parameter < slots_.size(); ++parameter) {
    if (has_state(parameter)) parameters.push_back(parameter);
  }
  return parameters;
}

// State is in doubles of its own: what it is on rank 0 travels in the text.
std::string ToyModel::state_shape(std::span<const uint32_t> parameters) {
  std::ostringstream shape;
  shape.precision(17);
  for (const uint32_t parameter : parameters) {
    const Slot& slot = slots_[parameter];
    shape << parameter << ' ' << slot.steps;
    for (const auto* state : {&slot.momenta, &slot.squares}) {
      for (const double value : read(slot.state_numbers(*state))) shape << ' ' << value;
    }
    shape << '\n';
  }
  return shape.str();
}

void ToyModel::forget_state(std::span<const uint32_t> parameters) {
  for (const uint32_t parameter : parameters) {
    Slot& slot = slots_[parameter];
    slot.steps = 0;
    for (auto* state : {&slot.momenta, &slot.squares}) {
      write("forget_state", slot.state_numbers(*state), std::vector<double>(slot.parameter.numel));
    }
  }
}

std::vector<uint32_t> ToyModel::take_state_shape(const std::string& shape) {
  std::vector<uint32_t> parameters;
  std::istringstream numbers(shape);
  for (uint32_t parameter = 0; numbers >> parameter;) {
    parameters.push_back(parameter);
    Slot& slot = slots_[parameter];
    numbers >> slot.steps;
    for (auto* state : {&slot.momenta, &slot.squares}) {
      std::vector<double> values(slot.parameter.numel);
      for (double& value : values) numbers >> value;
      write("take_state", slot.state_numbers(*state), std::move(values));
    }
  }
  return parameters;
}

std::vector<cohort_tensor> ToyModel::state_tensors(std::span<const uint32_t>) {
  return {};
}

}  // namespace cohort::toy
