// Master weights of a model in 16 bits, and gradients that are multiples of the loss scale.
#include <map>
#include <unordered_map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "tensor_model.hpp"

namespace cohort {

// Elements that the program has set since the conversion are those that the unrounded ones do not round to. Each
// unrounded tensor is dropped at once, as large models have no memory to spare.
void TensorModel::make_masters(UnroundedWeights unrounded) {
  for (at::Tensor& weights : weights_) {
    if (!at::isReducedFloatingType(weights.scalar_type())) continue;
    at::Tensor master = weights.detach().to(at::kFloat);
    const auto before = unrounded.extract(weights.unsafeGetTensorImpl());
    if (before && before.mapped().sizes() == weights.sizes()) {
      const at::Tensor exact = before.mapped().to(master.options());
      master = at::where(exact.to(weights.scalar_type()).eq(weights.detach()), exact, master);
    }
    weights = master.set_requires_grad(weights.requires_grad());
  }
  exchange_parameters(replicas_[0].parameters, weights_);
}

// With their state, which optimizers find by the tensor.
void TensorModel::exchange_parameters(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
  std::unordered_map<const void*, at::Tensor> others;
  for (size_t i = 0; i < from.size(); ++i) others.emplace(from[i].unsafeGetTensorImpl(), to[i]);
  for (const auto& optimizer : optimizers_) {
    for (auto& group : optimizer->param_groups()) {
      for (at::Tensor& parameter : group.params()) {
        const auto other = others.find(parameter.unsafeGetTensorImpl());
        if (other == others.end() || other->second.is_same(parameter)) continue;
        auto& states = optimizer->state();
        const auto state = states.find(parameter.unsafeGetTensorImpl());
        parameter = other->second;
        if (state == states.end()) continue;
        auto kept = std::move(state->second);
        states.erase(state);
        states[parameter.unsafeGetTensorImpl()] = std::move(kept);
      }
    }
  }
}

// Micro-batches are added up in float32 as well.
void TensorModel::add_to_master(uint32_t parameter, uint32_t number) {
  const at::NoGradGuard no_grad;
  at::Tensor& computed = replicas_[number].parameters[parameter].mutable_grad();
  at::Tensor& complete = replicas_[number].complete[parameter];
  const at::Tensor gradient = computed.to(weights_[parameter].options().requires_grad(false));
  computed.reset();
  if (complete.defined()) {
    complete.add_(gradient);
  } else if (const at::Tensor& place = gradient_places_[parameter]; number == 0 && place.defined()) {
    complete = place.copy_(gradient);
  } else {
    complete = at::empty_like(weights_[parameter]).copy_(gradient);
  }
  if (number == 0) weights_[parameter].mutable_grad() = complete;
}

void TensorModel::collect_gradients(uint32_t phase) {
  for (uint32_t number = 0; number < replicas_.size(); ++number) {
    for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
      if (phase_of_[i] != phase || !has_master(i)) continue;
      if (replicas_[number].parameters[i].grad().defined()) add_to_master(i, number);
    }
  }
}

// In float32 as torch.amp.GradScaler: the inverse of the scale in double precision, rounded.
void TensorModel::scale_losses(float scale) {
  if (std::exchange(scale_, scale) == scale || weights_.empty()) return;
  set_scalings();
}

void TensorModel::set_scalings() {
  const auto inverse = static_cast<float>(1.0 / static_cast<double>(scale_));
  std::map<c10::DeviceIndex, Scaling> scalings;
  for (const at::Tensor& weights : weights_) {
    const c10::DeviceIndex device = weights.device().index();
    if (scalings.contains(device)) continue;
    const auto options = at::TensorOptions().device(weights.device()).dtype(at::kFloat);
    const auto known = scalings_.find(device);
    const at::Tensor overflow = known == scalings_.end() ? at::zeros({1}, options) : known->second.overflow;
    scalings[device] = {at::full({1}, inverse, options), overflow};
  }
  scalings_ = std::move(scalings);
}

void TensorModel::unscale(const std::vector<at::Tensor>& gradients) {
  std::map<c10::DeviceIndex, std::vector<at::Tensor>> by_device;
  for (const at::Tensor& gradient : gradients) by_device[gradient.device().index()].push_back(gradient);
  for (const auto& [device, there] : by_device) {
    Scaling& scaling = scalings_.at(device);
    at::_amp_foreach_non_finite_check_and_unscale_(there, scaling.overflow, scaling.inverse);
  }
}

void TensorModel::unscale(const cohort_bucket& bucket) {
  std::vector<at::Tensor> gradients;
  for (const auto& part : std::span(bucket.parts, bucket.num_parts))
    gradients.push_back(replicas_[0].complete[part.id]);
  unscale(gradients);
}

void TensorModel::unscale(uint32_t phase) {
  unscale(gradients(phase));
}

bool TensorModel::take_overflow() {
  bool is_found = false;
  for (const auto& [device, scaling] : scalings_) {
    if (scaling.overflow.item<float>() == 0) continue;
    is_found = true;
    scaling.overflow.zero_();
  }
  return is_found;
}

}  // namespace cohort
