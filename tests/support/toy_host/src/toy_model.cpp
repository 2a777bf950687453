#include <cohort/toy_host/toy_model.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

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

std::vector<double> load_all(const void* data, int32_t dtype, uint64_t numel) {
  std::vector<double> values(numel);
  for (uint64_t i = 0; i < numel; ++i) values[i] = load(data, dtype, i);
  return values;
}

}  // namespace

struct ToyModel::Slot {
  // State of the optimizer: double, or where a strategy wants it in the parameter's type.
  struct State {
    std::vector<double> own;
    void* place = nullptr;
    double load_at(uint64_t i, int32_t dtype) const { return place ? load(place, dtype, i) : own[i]; }
    void store_at(uint64_t i, int32_t dtype, double value) {
      if (place) return store(place, dtype, i, value);
      own[i] = value;
    }
    std::vector<double> all(int32_t dtype) const { return place ? load_all(place, dtype, own.size()) : own; }
    void set_all(const std::vector<double>& values, int32_t dtype) {
      for (uint64_t i = 0; i < own.size(); ++i) store_at(i, dtype, values[i]);
    }
  };
  struct Gradient {
    std::vector<double> own;  // memory of the right alignment, used as bytes
    void* place = nullptr;
    bool is_there = false;
  };
  ToyParameter parameter;
  int64_t shape;
  int64_t stride = 1;
  std::vector<double> own_weights;  // as Gradient::own
  void* weights = nullptr;
  State momenta, squares;
  int64_t steps = 0;                // done by its optimizer
  std::vector<Gradient> gradients;  // by replica

  uint64_t nbytes() const { return parameter.numel * sdk::size_of(parameter.dtype); }
};

ToyModel::ToyModel(std::vector<ToyParameter> parameters, double first_weight, double learning_rate, double momentum,
                   uint32_t replicas)
    : ToyModel(std::move(parameters), first_weight, {.learning_rate = learning_rate, .momentum = momentum}, replicas) {}

ToyModel::ToyModel(std::vector<ToyParameter> parameters, double first_weight, ToyOptimizer optimizer, uint32_t replicas)
    : optimizer_(std::move(optimizer)), replicas_(replicas) {
  for (ToyParameter& parameter : parameters) {
    Slot slot;
    slot.shape = static_cast<int64_t>(parameter.numel);
    slot.own_weights.resize(parameter.numel);
    slot.weights = slot.own_weights.data();
    slot.momenta.own.resize(parameter.numel);
    slot.squares.own.resize(parameter.numel);
    for (uint64_t i = 0; i < parameter.numel; ++i) store(slot.weights, parameter.dtype, i, first_weight);
    for (uint32_t replica = 0; replica < replicas; ++replica) {
      Slot::Gradient& gradient = slot.gradients.emplace_back();
      gradient.own.resize(parameter.numel);
      gradient.place = gradient.own.data();
    }
    slot.parameter = std::move(parameter);
    slots_.push_back(std::move(slot));
  }
  lr_factors_.assign(num_phases(), 1.0);
  refresh_views();
}

ToyModel::~ToyModel() = default;

void ToyModel::refresh_views() {
  views_.clear();
  for (Slot& slot : slots_) {
    cohort_tensor view{};
    view.data = slot.weights;
    view.shape = &slot.shape;
    view.strides = &slot.stride;
    view.name = slot.parameter.name.c_str();
    view.nbytes = slot.nbytes();
    view.dtype = slot.parameter.dtype;
    view.ndim = 1;
    view.device_type = COHORT_DEVICE_CPU;
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
  const Slot& slot = slots_[parameter];
  return load_all(slot.weights, slot.parameter.dtype, slot.parameter.numel);
}

ToyState ToyModel::state() const {
  ToyState state;
  for (uint32_t parameter = 0; parameter < slots_.size(); ++parameter) {
    const Slot& slot = slots_[parameter];
    state.weights.push_back(weights(parameter));
    state.momenta.push_back(slot.momenta.all(slot.parameter.dtype));
    state.squares.push_back(slot.squares.all(slot.parameter.dtype));
    state.steps.push_back(slot.steps);
  }
  return state;
}

void ToyModel::set_state(const ToyState& state) {
  for (size_t parameter = 0; parameter < slots_.size(); ++parameter) {
    Slot& slot = slots_[parameter];
    const int32_t dtype = slot.parameter.dtype;
    for (uint64_t i = 0; i < slot.parameter.numel; ++i) store(slot.weights, dtype, i, state.weights[parameter][i]);
    slot.momenta.set_all(state.momenta[parameter], dtype);
    slot.squares.set_all(state.squares[parameter], dtype);
    slot.steps = state.steps[parameter];
  }
}

std::vector<double> ToyModel::gradient(uint32_t parameter) const {
  const Slot& slot = slots_[parameter];
  if (!slot.gradients[0].is_there) return {};
  return load_all(slot.gradients[0].place, slot.parameter.dtype, slot.parameter.numel);
}

void ToyModel::add_gradient(uint32_t parameter, std::span<const double> values, uint32_t replica) {
  const ToyParameter& about = slots_[parameter].parameter;
  Slot::Gradient& gradient = slots_[parameter].gradients[replica];
  for (uint64_t i = 0; i < about.numel; ++i) {
    const double before = gradient.is_there ? load(gradient.place, about.dtype, i) : 0.0;
    store(gradient.place, about.dtype, i, before + values[i]);
  }
  gradient.is_there = true;
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
    gradient.place = places[i] ? places[i] : gradient.own.data();
    gradient.is_there = false;
  }
}

void* ToyModel::gradient_data(uint32_t replica, uint32_t parameter) {
  const Slot::Gradient& gradient = slots_[parameter].gradients[replica];
  return replica == 0 || gradient.is_there ? gradient.place : nullptr;
}

void ToyModel::move_weights(std::span<void* const> places) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    void* const target = places[i] ? places[i] : slots_[i].own_weights.data();
    if (target != slots_[i].weights) std::memcpy(target, slots_[i].weights, slots_[i].nbytes());
    slots_[i].weights = target;
  }
  refresh_views();
}

void ToyModel::zero_gradient(uint32_t replica, uint32_t parameter) {
  Slot::Gradient& gradient = slots_[parameter].gradients[replica];
  if (replica == 0) std::memset(gradient.place, 0, slots_[parameter].nbytes());
  if (replica > 0) gradient.is_there = false;
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

void ToyModel::step_slot(Slot& slot) {
  if (!slot.gradients[0].is_there) return;
  ++slot.steps;
  const double rate = optimizer_.learning_rate * lr_factors_[slot.parameter.phase];
  for (uint64_t i = 0; i < slot.parameter.numel; ++i) step_element(slot, i, rate);
}

void ToyModel::clip_gradients(uint32_t phase, const cohort_clip_args& args) {
  double squares = 0;
  const auto each = [&](auto&& visit) {
    for (Slot& slot : slots_) {
      if (slot.parameter.phase != phase || !slot.gradients[0].is_there) continue;
      void* const place = slot.gradients[0].place;
      const int32_t dtype = slot.parameter.dtype;
      for (uint64_t i = 0; i < slot.parameter.numel; ++i) visit(place, dtype, i, load(place, dtype, i));
    }
  };
  each([&](void*, int32_t, uint64_t, double value) { squares += value * value; });
  if (args.norm) *args.norm = std::sqrt(squares);
  if (std::isinf(args.limit)) return;
  const double factor = std::min(1.0, args.limit / (std::sqrt(squares) + 1e-6));
  each([&](void* place, int32_t dtype, uint64_t i, double value) {
    store(place, dtype, i, args.by == COHORT_CLIP_NORM ? value * factor : std::clamp(value, -args.limit, args.limit));
  });
}

void ToyModel::step_element(Slot& slot, uint64_t i, double rate) const {
  const ToyOptimizer& o = optimizer_;
  const int32_t dtype = slot.parameter.dtype;
  double weight = load(slot.weights, dtype, i), gradient = load(slot.gradients[0].place, dtype, i);
  if (o.kind == "adamw") {
    weight -= rate * o.weight_decay * weight;
  } else {
    gradient += o.weight_decay * weight;
  }
  const double fresh = is_adam() ? 1 - o.beta1 : 1.0;
  slot.momenta.store_at(i, dtype,
                        (is_adam() ? o.beta1 : o.momentum) * slot.momenta.load_at(i, dtype) + fresh * gradient);
  double change = slot.momenta.load_at(i, dtype);
  if (is_adam()) {
    const auto t = static_cast<double>(slot.steps);
    slot.squares.store_at(i, dtype, o.beta2 * slot.squares.load_at(i, dtype) + (1 - o.beta2) * gradient * gradient);
    const double square = slot.squares.load_at(i, dtype) / (1 - std::pow(o.beta2, t));
    change = change / (1 - std::pow(o.beta1, t)) / (std::sqrt(square) + o.eps);
  }
  store(slot.weights, dtype, i, weight - rate * change);
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
    const int32_t dtype = slots_[i].parameter.dtype;
    const std::vector<double> values = state.all(dtype);
    state.place = places[i];
    state.set_all(values, dtype);
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
      for (const double value : state->all(slot.parameter.dtype)) shape << ' ' << value;
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
      state->set_all(std::vector<double>(slot.parameter.numel), slot.parameter.dtype);
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
      state->set_all(values, slot.parameter.dtype);
    }
  }
  return parameters;
}

std::vector<cohort_tensor> ToyModel::state_tensors(std::span<const uint32_t>) {
  return {};
}

}  // namespace cohort::toy
