#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <c10/core/GradMode.h>

#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>

#include "weights/named_tensors.hpp"

namespace cohort {

WeightAverage::WeightAverage(double decay) : decay_(decay) {
  if (!(decay >= 0 && decay < 1)) throw UserError("--ema: the decay of averaged weights must be from 0 to below 1");
}

void WeightAverage::on_fit_start(Fit& fit) {
  const at::NoGradGuard no_grad;
  weights_.clear();
  for (const auto& [name, parameter] : named_parameters_of(fit.module())) weights_.push_back(fit.weights_of(parameter));
  const bool is_resumed = fit.step() > 0 && average_.size() == weights_.size();
  if (!is_resumed) average_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (!is_resumed) average_.push_back(weights_[i].detach().clone());
    if (is_resumed) average_[i] = average_[i].to(weights_[i].device());
  }
}

void WeightAverage::on_step_end(Fit& /*fit*/) {
  const at::NoGradGuard no_grad;
  at::_foreach_lerp_(average_, weights_, 1 - decay_);
}

void WeightAverage::on_validation_start(Fit& fit) {
  const at::NoGradGuard no_grad;
  const NamedTensors parameters = named_parameters_of(fit.module());
  for (const auto& [name, parameter] : parameters) set_aside_.push_back(parameter.detach().clone());
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].second.copy_(average_[i]);
}

void WeightAverage::on_validation_end(Fit& fit, const Metrics& /*means*/) {
  const at::NoGradGuard no_grad;
  const NamedTensors parameters = named_parameters_of(fit.module());
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].second.copy_(set_aside_[i]);
  set_aside_.clear();
}

void WeightAverage::on_fit_end(Fit& /*fit*/) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) weights_[i].copy_(average_[i]);
  weights_.clear();
}

// Tensors are copied: a checkpoint may be written when the average has moved on.
void WeightAverage::save_state(CallbackState& state) const {
  for (size_t i = 0; i < average_.size(); ++i) state.set(std::to_string(i), average_[i].detach().clone());
}

void WeightAverage::load_state(const CallbackState& state) {
  average_.clear();
  for (size_t i = 0; state.has(std::to_string(i)); ++i) average_.push_back(state.tensor(std::to_string(i)).clone());
}

}  // namespace cohort
