#include "tensor_model.hpp"

#include <unordered_set>

#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <cohort/host/error.hpp>

#include "../tensor_bridge/tensor_bridge.hpp"

namespace cohort {

// Runs when AccumulateGrad has written a parameter's gradient: once per backward, after the last use of the parameter.
struct TensorModel::Hook final : torch::autograd::PostAccumulateGradHook {
  Hook(TensorModel* model, uint32_t parameter) : model_(model), parameter_(parameter) {}
  void operator()(const torch::autograd::Variable&) override { model_->gradient_computed(parameter_); }

 private:
  TensorModel* model_;
  uint32_t parameter_;
};

TensorModel::TensorModel(torch::nn::Module& module, Optimizers optimizers) : optimizers_(std::move(optimizers)) {
  std::unordered_set<const void*> seen;  // a tied parameter has several names and is trained once
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    parameter_names_.push_back(item.key());
    parameters_.push_back(item.value());
  }
  for (const auto& item : module.named_buffers()) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    buffer_names_.push_back(item.key());
    buffers_.push_back(item.value());
  }
  gradient_places_.resize(parameters_.size());
  moved_.assign(parameters_.size(), 0);
  refresh_views();
}

TensorModel::~TensorModel() {
  on_gradient({});
}

void TensorModel::refresh_views() {
  parameter_views_.clear();
  buffer_views_.clear();
  for (uint32_t i = 0; i < parameters_.size(); ++i) {
    parameter_views_.push_back(abi_tensor(parameters_[i], parameter_names_[i], i));
  }
  for (uint32_t i = 0; i < buffers_.size(); ++i) {
    buffer_views_.push_back(abi_tensor(buffers_[i], buffer_names_[i], i));
  }
}

void TensorModel::place_gradients(std::span<void* const> places) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    // A gradient that lies in the old place must not outlive it.
    if (gradient_places_[i].defined()) parameters_[i].mutable_grad().reset();
    gradient_places_[i] = places[i] ? tensor_over(places[i], parameters_[i]) : at::Tensor();
  }
}

void TensorModel::move_weights(std::span<void* const> places) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!places[i] && !moved_[i]) continue;
    const at::Tensor weights = parameters_[i].detach();
    at::Tensor target = places[i] ? tensor_over(places[i], weights) : at::empty_like(weights);
    target.copy_(weights);
    parameters_[i].set_data(target);
    moved_[i] = places[i] != nullptr;
  }
  refresh_views();
}

void TensorModel::zero_gradient(uint32_t parameter) {
  gradient_places_[parameter].zero_();
}

void TensorModel::optimizer_step(uint32_t phase) {
  optimizers_[phase].step();
}

void TensorModel::on_gradient(std::function<void(uint32_t)> ready) {
  ready_ = std::move(ready);
  for (uint32_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].requires_grad()) continue;
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], ready_ ? std::make_unique<Hook>(this, i) : nullptr);
  }
}

void TensorModel::check_frozen() const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool was_trained = parameter_views_[i].flags & COHORT_TENSOR_REQUIRES_GRAD;
    if (parameters_[i].requires_grad() == was_trained) continue;
    throw UserError(
        "'" + parameter_names_[i] + "' was " + (was_trained ? "frozen" : "unfrozen") +
        " during training on several ranks; do it before fit() or before making the Session, and fit again");
  }
}

void TensorModel::gradient_computed(uint32_t parameter) {
  at::Tensor& gradient = parameters_[parameter].mutable_grad();
  if (!gradient.defined()) return;
  if (gradient.layout() != at::kStrided) {
    throw UserError("the gradient of '" + parameter_names_[parameter] +
                    "' is sparse, which cannot be averaged over ranks; use a dense one (Embedding with sparse(false))");
  }
  const at::Tensor& place = gradient_places_[parameter];
  // Already there: a second micro-batch adds in place.
  if (place.defined() && gradient.data_ptr() != place.data_ptr()) {
    place.copy_(gradient.detach());
    gradient = place;
  }
  ready_(parameter);
}

void TensorModel::show_gradient(uint32_t parameter) {
  parameters_[parameter].mutable_grad() = gradient_places_[parameter];
}

void TensorModel::forget_gradients() {
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

}  // namespace cohort
