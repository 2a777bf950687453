#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

// Numbers and switches have no mean.
NamedTensors with_means(NamedTensors tensors) {
  std::erase_if(tensors,
                [](const auto& item) { return !item.second.is_floating_point() && !item.second.is_complex(); });
  return tensors;
}

}  // namespace

WeightAverage::WeightAverage(double decay, Options options) : decay_(decay), options_(options) {
  if (!(decay >= 0 && decay < 1)) throw UserError("--ema: the decay of averaged weights must be from 0 to below 1");
}

void WeightAverage::on_fit_start(Fit& fit) {
  auto names = std::exchange(names_, {});
  auto average = std::exchange(average_, {});
  weights_.clear();
  for (const auto& [name, parameter] : with_means(named_parameters_of(fit.module()))) {
    names_.push_back(name);
    weights_.push_back(fit.weights_of(parameter));
  }
  if (options_.buffers) {
    for (const auto& [name, buffer] : with_means(named_buffers_of(fit.module()))) {
      names_.push_back(name);
      weights_.push_back(buffer);
    }
  }
  if (fit.step() > 0 && !average.empty()) restore(std::move(names), std::move(average));
}

// A checkpoint up to format 2 has numbers in place of names, and one that was written without buffers=true lacks
// buffers. Before the fit starts the names of the module's tensors are not known, so the average is put in order later.
void WeightAverage::restore(std::vector<std::string> names, std::vector<at::Tensor> average) {
  if (weights_.empty()) {
    names_ = std::move(names);
    average_ = std::move(average);
    return;
  }
  average_.clear();
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto place = names.empty() ? i : static_cast<size_t>(std::ranges::find(names, names_[i]) - names.begin());
    const bool is_there = place < average.size();
    if (is_there && average[place].sizes() != weights_[i].sizes()) {
      throw UserError("the averaged weights of the checkpoint do not fit " + host::in_quotes(names_[i]) +
                      "; resume from another checkpoint");
    }
    average_.push_back((is_there ? average[place] : weights_[i]).detach().to(weights_[i].options()).clone());
  }
}

void WeightAverage::on_step_end(Fit& /*fit*/) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < average_.size(); ++i) average_[i] = average_[i].to(weights_[i].device());  // which may change
  if (!average_.empty()) return at::_foreach_lerp_(average_, weights_, 1 - decay_);
  for (const at::Tensor& weight : weights_) average_.push_back(weight.detach().clone());
}

// A parameter may be a rounded copy of the weight that is trained.
std::vector<at::Tensor> WeightAverage::in_module(Fit& fit) const {
  std::vector<at::Tensor> tensors = weights_;
  size_t place = 0;
  for (const auto& [name, parameter] : with_means(named_parameters_of(fit.module()))) tensors[place++] = parameter;
  return tensors;
}

// All are set aside before the first one is changed, because memory may not do for the copies.
void WeightAverage::on_validation_start(Fit& fit) {
  const at::NoGradGuard no_grad;
  if (average_.empty()) return;
  const std::vector<at::Tensor> tensors = in_module(fit);
  std::vector<at::Tensor> trained;
  for (const at::Tensor& tensor : tensors) trained.push_back(tensor.detach().clone());
  set_aside_ = std::move(trained);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(average_[i]);
}

void WeightAverage::on_validation_end(Fit& fit, const Metrics& /*means*/) {
  on_validation_abandoned(fit);
}

void WeightAverage::on_validation_abandoned(Fit& fit) {
  const at::NoGradGuard no_grad;
  if (set_aside_.empty()) return;
  const std::vector<at::Tensor> tensors = in_module(fit);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].copy_(set_aside_[i]);
  set_aside_.clear();
}

void WeightAverage::on_fit_end(Fit& /*fit*/) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < average_.size(); ++i) weights_[i].copy_(average_[i]);
  weights_.clear();
}

void WeightAverage::load_state(const CallbackState& state) {
  std::vector<at::Tensor> average;
  for (size_t i = 0; state.has(std::to_string(i)); ++i) average.push_back(state.tensor(std::to_string(i)).clone());
  if (!average.empty()) restore({}, std::move(average));
}

// Copies, because a checkpoint may be written when the average has moved on.
NamedTensors WeightAverage::validated_weights() const {
  NamedTensors weights;
  for (size_t i = 0; i < average_.size(); ++i) weights.emplace_back(names_.at(i), average_[i].detach().clone());
  return weights;
}

bool WeightAverage::load_validated_weights(const NamedTensors& weights) {
  std::vector<std::string> names;
  std::vector<at::Tensor> average;
  for (const auto& [name, tensor] : weights) {
    names.push_back(name);
    average.push_back(tensor.clone());
  }
  restore(std::move(names), std::move(average));
  return true;
}

}  // namespace cohort
