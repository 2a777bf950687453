#include "hosted_optimizers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <c10/util/Type.h>

#include <cohort/host/error.hpp>
#include <cohort/qadam.hpp>

#include "../tensor_bridge/tensor_bridge.hpp"

namespace cohort {
namespace {

/// Learning rates are multiplied while it lives.
class ScaledRates {
 public:
  ScaledRates(torch::optim::Optimizer& optimizer, double factor) : optimizer_(optimizer) {
    if (factor == 1.0) return;
    for (auto& group : optimizer_.param_groups()) {
      rates_.push_back(group.options().get_lr());
      group.options().set_lr(rates_.back() * factor);
    }
  }
  ~ScaledRates() {
    for (size_t i = 0; i < rates_.size(); ++i) optimizer_.param_groups()[i].options().set_lr(rates_[i]);
  }
  ScaledRates(const ScaledRates&) = delete;
  ScaledRates& operator=(const ScaledRates&) = delete;

 private:
  torch::optim::Optimizer& optimizer_;
  std::vector<double> rates_;
};

/// The groups of an optimizer hold these parameters alone while it lives. LibTorch's own kinds step each parameter by
/// itself, as if the others had no gradient.
class ChosenParameters {
 public:
  ChosenParameters(torch::optim::Optimizer& optimizer, std::vector<std::vector<at::Tensor>> by_group)
      : optimizer_(optimizer), others_(std::move(by_group)) {
    swap();
  }
  ~ChosenParameters() { swap(); }
  ChosenParameters(const ChosenParameters&) = delete;
  ChosenParameters& operator=(const ChosenParameters&) = delete;

 private:
  void swap() {
    for (size_t i = 0; i < others_.size(); ++i) optimizer_.param_groups()[i].params().swap(others_[i]);
  }

  torch::optim::Optimizer& optimizer_;
  std::vector<std::vector<at::Tensor>> others_;  // by group
};

/// State that is kept only where a setting is not 0.
struct Condition {
  std::string_view state, setting;
};
constexpr std::array<Condition, 3> kConditions{
    {{"momentum_buffer", "momentum"}, {"max_exp_avg_sq", "amsgrad"}, {"grad_avg", "centered"}}};

// Returns the shortest text that reads back as exactly this value.
std::string exact(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

// Returns the only setting that is known of a user's own optimizer; "" if it has no learning rate.
std::string learning_rate_line(const torch::optim::OptimizerOptions& options) {
  try {
    return "lr = " + exact(options.get_lr());
  } catch (const c10::Error&) {
    return "";
  }
}

}  // namespace

HostedOptimizers::HostedOptimizers(const Optimizers& optimizers, const std::vector<at::Tensor>& parameters,
                                   const std::vector<std::string>& names)
    : optimizers_(optimizers),
      parameters_(parameters),
      names_(names),
      owners_(parameters.size()),
      lr_factors_(optimizers.size(), 1.0) {
  // On the CPU, torch::optim's steps stay as they are, to the bit.
  if (!std::ranges::all_of(parameters_, [](const at::Tensor& one) { return one.is_cpu(); })) fused_.emplace();
  for (const auto& optimizer : optimizers_) {
    const auto& groups = optimizer->param_groups();
    for (size_t group = 0; group < groups.size(); ++group) {
      for (const at::Tensor& owned : groups[group].params()) {
        const auto found = std::ranges::find_if(parameters_, [&](const auto& one) { return one.is_same(owned); });
        if (found == parameters_.end() && !owned.requires_grad()) continue;
        if (found == parameters_.end()) {
          throw UserError(c10::str("an optimizer trains a tensor of shape ", owned.sizes(),
                                   " that the module does not hold; register it with register_parameter, so that "
                                   "ranks average its gradient and checkpoints keep it"));
        }
        Owner& owner = owners_[static_cast<size_t>(found - parameters_.begin())];
        if (owner.optimizer) {
          throw UserError("'" + names_[static_cast<size_t>(found - parameters_.begin())] +
                          "' is given to the optimizers twice and would be stepped twice; give it to one group of one "
                          "optimizer, once (of parameters that share a tensor, only one)");
        }
        owner = {optimizer.get(), optimizer_kind(*optimizer), group};
      }
    }
  }
}

void HostedOptimizers::step(uint32_t phase) {
  try {
    step_all(phase);
  } catch (const c10::Error& error) {
    check_sparse(phase, error);
    throw;
  }
}

// Throws if a sparse gradient can be what LibTorch has objected to.
void HostedOptimizers::check_sparse(uint32_t phase, const c10::Error& error) const {
  for (const auto& group : optimizers_[phase].param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined() || !parameter.grad().is_sparse()) continue;
      const auto found = std::ranges::find_if(parameters_, [&](const auto& one) { return one.is_same(parameter); });
      const std::string name =
          found == parameters_.end() ? "" : "'" + names_[static_cast<size_t>(found - parameters_.begin())] + "' has ";
      throw UserError(name + "a sparse gradient, which this optimizer cannot step with (" +
                      error.what_without_backtrace() + "); make the Embedding with sparse(false), or choose SGD");
    }
  }
}

void HostedOptimizers::step_all(uint32_t phase) {
  torch::optim::Optimizer& optimizer = optimizers_[phase];
  const ScaledRates scaled(optimizer, lr_factors_[phase]);
  const OptimizerKind* const known = optimizer_kind(optimizer);
  if (needs_closure(optimizer)) {
    optimizer.step([&] { return evaluate_(phase); });
  } else if (!fused_ || !known || !known->fused) {
    optimizer.step();
  } else {
    const ChosenParameters others(optimizer, fused_->step(optimizer, *known));
    optimizer.step();
  }
}

void HostedOptimizers::set_capturing(bool is_capturing) {
  if (fused_) fused_->set_capturing(is_capturing);
}

void HostedOptimizers::count_replayed_step() {
  if (fused_) fused_->count_replayed_step();
}

void HostedOptimizers::step(uint32_t phase, std::span<const uint32_t> parameters) {
  std::vector<std::vector<at::Tensor>> chosen(optimizers_[phase].param_groups().size());
  for (const uint32_t parameter : parameters) {
    if (owners_[parameter].optimizer) chosen[owners_[parameter].group].push_back(parameters_[parameter]);
  }
  const ChosenParameters some(optimizers_[phase], std::move(chosen));
  step(phase);
}

void HostedOptimizers::check_partial(uint32_t phase) {
  if (optimizer_kind(optimizers_[phase])) return;
  const torch::optim::Optimizer& optimizer = optimizers_[phase];
  throw UserError("optimizer " + std::to_string(phase) + " is a " + c10::demangle(typeid(optimizer).name()) +
                  ", of which nobody knows whether it can step some of its parameters alone, as the strategy asks; "
                  "choose SGD, Adam, AdamW, RMSprop or Adagrad, or another strategy");
}

void HostedOptimizers::set_lr_factor(uint32_t phase, double factor) {
  try {
    for (auto& group : optimizers_[phase].param_groups()) group.options().set_lr(group.options().get_lr());
  } catch (const c10::Error&) {
    throw UserError("optimizer " + std::to_string(phase) +
                    " has no learning rate that could be scaled; override get_lr and set_lr of its options");
  }
  lr_factors_[phase] = factor;
}

const char* HostedOptimizers::kind(uint32_t phase) {
  const OptimizerKind* const known = optimizer_kind(optimizers_[phase]);
  return known ? known->id : "";
}

std::string HostedOptimizers::settings() {
  std::ostringstream text;
  for (uint32_t phase = 0; phase < optimizers_.size(); ++phase) {
    auto& optimizer = optimizers_[phase];
    for (size_t number = 0; number < optimizer.param_groups().size(); ++number) {
      const std::string head = "optimizer " + std::to_string(phase) + ", group " + std::to_string(number) + ": ";
      auto& options = optimizer.param_groups()[number].options();
      const OptimizerKind* const known = optimizer_kind(optimizer);
      if (!known) text << head << learning_rate_line(options) << '\n';
      if (!known) continue;
      known->visit_settings(options, [&](const char* name, SettingField field) {
        const auto* const value = std::get_if<double*>(&field);
        text << head << name << " = " << (value ? exact(**value) : *std::get<bool*>(field) ? "true" : "false") << '\n';
      });
    }
    const auto* const qadam = dynamic_cast<const QAdam*>(&optimizer);
    if (qadam) text << "optimizer " << phase << ": warmup_steps = " << qadam->warmup_steps() << '\n';
  }
  for (uint32_t i = 0; i < owners_.size(); ++i) text << names_[i] << " is in group " << owners_[i].group << '\n';
  return text.str();
}

std::optional<double> HostedOptimizers::hyper(uint32_t parameter, std::string_view name) {
  const Owner& owner = owners_[parameter];
  std::optional<double> value;
  if (!owner.kind) return value;
  if (const auto* const qadam = dynamic_cast<const QAdam*>(owner.optimizer); qadam && name == "warmup_steps") {
    return static_cast<double>(qadam->warmup_steps());
  }
  owner.kind->visit_settings(owner.optimizer->param_groups()[owner.group].options(),
                             [&](const char* setting, SettingField field) {
                               if (setting != name) return;
                               const auto* const number = std::get_if<double*>(&field);
                               value = number ? **number : *std::get<bool*>(field);
                             });
  return value;
}

HostedOptimizers::State* HostedOptimizers::find_state(uint32_t parameter) {
  const Owner& owner = owners_[parameter];
  if (!owner.kind) return nullptr;
  const auto found = owner.optimizer->state().find(parameters_[parameter].unsafeGetTensorImpl());
  return found == owner.optimizer->state().end() ? nullptr : found->second.get();
}

bool HostedOptimizers::keeps(uint32_t parameter, std::string_view name) {
  const auto condition = std::ranges::find(kConditions, name, &Condition::state);
  return condition == kConditions.end() || hyper(parameter, condition->setting).value_or(0) != 0;
}

/// As the optimizer's first step would make it, where there is none.
HostedOptimizers::State& HostedOptimizers::state_of(uint32_t parameter) {
  if (State* const found = find_state(parameter)) return *found;
  const Owner& owner = owners_[parameter];
  auto state = owner.kind->make_state();
  owner.kind->visit_state(*state, [&](const char* name, StateField field) {
    auto* const tensor = std::get_if<at::Tensor*>(&field);
    if (tensor && keeps(parameter, name)) **tensor = at::zeros_like(parameters_[parameter].detach());
  });
  return *(owner.optimizer->state()[parameters_[parameter].unsafeGetTensorImpl()] = std::move(state));
}

std::optional<int64_t> HostedOptimizers::counted_steps(uint32_t parameter) {
  std::optional<int64_t> steps;
  const OptimizerKind* const kind = owners_[parameter].kind;
  State* const state = find_state(parameter);
  if (!kind) return steps;
  kind->visit_state(state ? *state : *kind->make_state(), [&](const char*, StateField field) {
    if (const auto* const count = std::get_if<int64_t*>(&field)) steps = **count;
  });
  return steps;
}

void HostedOptimizers::set_counted_steps(uint32_t parameter, int64_t steps) {
  if (!counted_steps(parameter)) refuse(parameter, "step");
  owners_[parameter].kind->visit_state(state_of(parameter), [&](const char*, StateField field) {
    if (const auto* const count = std::get_if<int64_t*>(&field)) **count = steps;
  });
}

void HostedOptimizers::refuse(uint32_t parameter, const std::string& name) const {
  const Owner& owner = owners_[parameter];
  if (!owner.optimizer) {
    throw UserError("'" + names_[parameter] +
                    "' requires a gradient and belongs to no optimizer; give it to one, or freeze it");
  }
  throw UserError("the strategy works on the state '" + name + "' of the optimizer of '" + names_[parameter] +
                  "', and " + (owner.kind ? owner.kind->name : "an optimizer of this type") +
                  " with these settings keeps none; choose another optimizer or strategy");
}

at::Tensor& HostedOptimizers::state_tensor(uint32_t parameter, const std::string& name) {
  at::Tensor* found = nullptr;
  if (!owners_[parameter].kind || !keeps(parameter, name)) refuse(parameter, name);
  owners_[parameter].kind->visit_state(state_of(parameter), [&](const char* field_name, StateField field) {
    if (name == field_name && std::holds_alternative<at::Tensor*>(field)) found = std::get<at::Tensor*>(field);
  });
  if (!found) refuse(parameter, name);
  if (!found->defined()) *found = at::zeros_like(parameters_[parameter].detach());
  return *found;
}

void HostedOptimizers::move_state(const std::string& name, std::span<void* const> places) {
  std::vector<void*>& before = places_[name];
  before.resize(places.size());
  for (uint32_t i = 0; i < places.size(); ++i) {
    if (!places[i] && !before[i]) continue;
    at::Tensor& state = state_tensor(i, name);
    if (state.data_ptr() != places[i]) {
      // Dampening weakens every gradient but the first, which LibTorch tells by there being no buffer yet.
      if (places[i] && name == "momentum_buffer" && hyper(i, "dampening").value_or(0) != 0) refuse(i, name);
      const at::Tensor weights = parameters_[i].detach();
      at::Tensor target = places[i] ? tensor_over(places[i], weights) : at::empty_like(weights);
      target.copy_(state);
      state = target;
    }
    before[i] = places[i];
  }
}

void HostedOptimizers::restored() {
  for (const auto& [name, places] : places_) move_state(name, std::vector<void*>(places));
}

void HostedOptimizers::follow_devices() {
  for (uint32_t i = 0; i < parameters_.size(); ++i) {
    if (!find_state(i)) continue;
    owners_[i].kind->visit_state(*find_state(i), [&](const char*, StateField field) {
      auto* const tensor = std::get_if<at::Tensor*>(&field);
      if (tensor && (*tensor)->defined()) **tensor = (*tensor)->to(parameters_[i].device());
    });
  }
}

std::vector<uint32_t> HostedOptimizers::with_state() {
  std::vector<uint32_t> parameters;
  for (uint32_t i = 0; i < parameters_.size(); ++i) {
    if (find_state(i)) parameters.push_back(i);
  }
  return parameters;
}

// A line for each parameter: its number and its count of steps. What is kept follows from the settings.
std::string HostedOptimizers::state_shape(std::span<const uint32_t> parameters) {
  std::string shape;
  for (const uint32_t i : parameters) {
    shape += std::to_string(i) + ' ' + std::to_string(counted_steps(i).value_or(0)) + '\n';
  }
  return shape;
}

std::vector<uint32_t> HostedOptimizers::take_state_shape(const std::string& shape) {
  std::vector<uint32_t> parameters;
  std::istringstream lines(shape);
  int64_t steps = 0;
  for (uint32_t parameter = 0; lines >> parameter >> steps;) {
    parameters.push_back(parameter);
    state_of(parameter);
    if (counted_steps(parameter)) set_counted_steps(parameter, steps);
  }
  restored();
  return parameters;
}

std::vector<cohort_tensor> HostedOptimizers::state_tensors(std::span<const uint32_t> parameters) {
  std::vector<cohort_tensor> tensors;
  for (const uint32_t i : parameters) {
    if (!find_state(i)) continue;
    owners_[i].kind->visit_state(*find_state(i), [&](const char* name, StateField field) {
      auto* const tensor = std::get_if<at::Tensor*>(&field);
      if (tensor && keeps(i, name)) tensors.push_back(abi_tensor(state_tensor(i, name), names_[i], i));
    });
  }
  return tensors;
}

void HostedOptimizers::forget_state(std::span<const uint32_t> parameters) {
  for (const uint32_t i : parameters) {
    if (owners_[i].kind) owners_[i].optimizer->state().erase(parameters_[i].unsafeGetTensorImpl());
  }
}

}  // namespace cohort
