// The optimizers of a toy model, and their state.
#include <algorithm>
#include <cmath>
#include <sstream>

#include <cohort/host/error.hpp>

#include "toy_arrays.hpp"

namespace cohort::toy {

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
  const Numbers norm{&device_, args.norm, COHORT_FLOAT64, args.norm ? 1u : 0u};
  accesses.push_back(norm.writes());
  const Numbers given{&device_, const_cast<double*>(args.given_norm), COHORT_FLOAT64, args.given_norm ? 1u : 0u};
  accesses.push_back(given.reads());
  device_.run("clip", accesses, [by = args.by, limit = args.limit, norm, given, gradients] {
    double squares = 0;
    for (const Numbers& gradient : gradients) {
      for (uint64_t i = 0; i < gradient.numel; ++i) squares += gradient.at(i) * gradient.at(i);
    }
    const double whole = given.data ? given.at(0) : std::sqrt(squares);
    if (norm.data) norm.put(0, whole);
    if (std::isinf(limit)) return;
    const double factor = std::min(limit / (whole + 1e-6), 1.0);  // a NaN stays one, as in LibTorch
    for (const Numbers& gradient : gradients) {
      for (uint64_t i = 0; i < gradient.numel; ++i) {
        const double value = gradient.at(i);
        gradient.put(i, by == COHORT_CLIP_NORM ? value * factor : std::clamp(value, -limit, limit));
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
  const auto step_element = [o = optimizer_, is_adam = is_adam(), t = static_cast<double>(slot.steps), rate, weights,
                             gradients, momenta, squares](uint64_t i) {
    double weight = weights.at(i), gradient = gradients.at(i);
    if (o.kind == "adamw") {
      weight -= rate * o.weight_decay * weight;
    } else {
      gradient += o.weight_decay * weight;
    }
    const double fresh = is_adam ? 1 - o.beta1 : 1.0;
    momenta.put(i, (is_adam ? o.beta1 : o.momentum) * momenta.at(i) + fresh * gradient);
    double change = momenta.at(i);
    if (is_adam) {
      squares.put(i, o.beta2 * squares.at(i) + (1 - o.beta2) * gradient * gradient);
      const double square = squares.at(i) / (1 - std::pow(o.beta2, t));
      change = change / (1 - std::pow(o.beta1, t)) / (std::sqrt(square) + o.eps);
    }
    weights.put(i, weight - rate * change);
  };
  slot.device->run("step", {gradients.reads(), weights.writes(), momenta.writes(), squares.writes()},
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
