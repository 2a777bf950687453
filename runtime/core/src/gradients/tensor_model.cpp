#include "tensor_model.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>

#include <cohort/host/error.hpp>

#include "../tensor_bridge/tensor_bridge.hpp"
#include "clip.hpp"
#include "shared_memory.hpp"

namespace cohort {
namespace {

// Element by element at the same place of memory, so that gradients of replicas can be added as plain arrays.
bool is_laid_out_as(const at::Tensor& gradient, const at::Tensor& parameter) {
  if (!gradient.is_non_overlapping_and_dense() || gradient.is_neg()) return false;
  for (int64_t i = 0; i < parameter.dim(); ++i) {
    if (parameter.size(i) > 1 && gradient.stride(i) != parameter.stride(i)) return false;
  }
  return true;
}

// A gradient that passes through a view is the same memory in several tensors, which backward may still read.
bool is_of_several_tensors(const at::Tensor& gradient) {
  return gradient.storage().use_count() > 1;
}

// By anybody else, as it is or through a view.
bool is_held(const at::Tensor& tensor) {
  return tensor.use_count() > 1 || tensor.storage().use_count() > 1;
}

}  // namespace

// Runs when AccumulateGrad has written a parameter's gradient: once per backward, after the last use of the parameter.
struct TensorModel::Hook final : torch::autograd::PostAccumulateGradHook {
  Hook(TensorModel* model, uint32_t parameter, uint32_t replica)
      : model_(model), parameter_(parameter), replica_(replica) {}
  void operator()(const torch::autograd::Variable&) override { model_->gradient_computed(parameter_, replica_); }

 private:
  TensorModel* model_;
  uint32_t parameter_, replica_;
};

TensorModel::TensorModel(std::span<torch::nn::Module* const> replicas, Optimizers optimizers, bool has_masters,
                         UnroundedWeights unrounded)
    : optimizers_(std::move(optimizers)), has_masters_(has_masters) {
  for (torch::nn::Module* const module : replicas) collect(*module);
  check_clones();
  check_memory();
  weights_ = replicas_[0].parameters;
  if (has_masters_) make_masters(std::move(unrounded));
  for (uint32_t i = 0; i < weights_.size(); ++i) {
    for (const at::Tensor& tensor : {weights_[i], replicas_[0].parameters[i]})
      numbers_[tensor.unsafeGetTensorImpl()] = i;
  }
  moved_.assign(parameter_names_.size(), 0);
  for (size_t i = 0; i < parameter_names_.size(); ++i) share_weights(i);
  refresh_views();
  find_phases();
  hosted_ = std::make_unique<HostedOptimizers>(optimizers_, weights_, parameter_names_);
}

TensorModel::~TensorModel() {
  on_gradient({});
  if (has_masters_) exchange_parameters(weights_, replicas_[0].parameters);
}

void TensorModel::collect(torch::nn::Module& module) {
  const bool first = replicas_.empty();
  Replica& replica = replicas_.emplace_back();
  std::unordered_set<const void*> seen;  // a tied parameter has several names and is trained once
  for (const auto& item : module.named_parameters()) {
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    if (first) parameter_names_.push_back(item.key());
    replica.parameters.push_back(item.value());
  }
  for (const auto& item : module.named_buffers()) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    if (first) buffer_names_.push_back(item.key());
    replica.buffers.push_back(item.value());
  }
  if (first) gradient_places_.resize(replica.parameters.size());
  replica.complete.resize(replica.parameters.size());
}

void TensorModel::check_clones() const {
  for (const Replica& replica : replicas_) {
    if (replica.parameters.size() == parameter_names_.size() && replica.buffers.size() == buffer_names_.size())
      continue;
    throw UserError("a clone of the module has " + std::to_string(replica.parameters.size()) + " parameters and " +
                    std::to_string(replica.buffers.size()) + " buffers of its own where the module has " +
                    std::to_string(parameter_names_.size()) + " and " + std::to_string(buffer_names_.size()) +
                    "; make() must give a module of the same shape, with the same parameters shared");
  }
}

void TensorModel::check_memory() const {
  std::vector<NamedMemory> tensors;
  for (size_t i = 0; i < parameter_names_.size(); ++i) {
    tensors.push_back({parameter_names_[i], replicas_[0].parameters[i], true});
  }
  for (size_t i = 0; i < buffer_names_.size(); ++i) tensors.push_back({buffer_names_[i], replicas_[0].buffers[i]});
  require_own_memory(std::move(tensors));
}

// Returns " 'fc.weight'", or "" if the tensor is not a parameter of the module.
std::string TensorModel::described(const at::Tensor& tensor) const {
  for (size_t i = 0; i < parameter_names_.size(); ++i) {
    if (weights_[i].is_same(tensor)) return " '" + parameter_names_[i] + "'";
  }
  return "";
}

void TensorModel::find_phases() {
  phase_of_.assign(parameter_names_.size(), 0);
  if (optimizers_.size() <= 1) return;
  std::unordered_map<const void*, uint32_t> owners;
  for (uint32_t phase = 0; phase < optimizers_.size(); ++phase) {
    for (const auto& group : optimizers_[phase].param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const auto [owner, fresh] = owners.emplace(parameter.unsafeGetTensorImpl(), phase);
        if (fresh || owner->second == phase) continue;
        throw UserError("optimizers " + std::to_string(owner->second) + " and " + std::to_string(phase) +
                        " train the same parameter" + described(parameter) + "; give each parameter to one of them");
      }
    }
  }
  for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
    const auto owner = owners.find(weights_[i].unsafeGetTensorImpl());
    if (owner != owners.end()) {
      phase_of_[i] = owner->second;
    } else if (is_trained(i)) {
      throw UserError("'" + parameter_names_[i] +
                      "' requires a gradient and belongs to none of the optimizers; give it to one, or freeze it");
    }
  }
}

// Set anew whenever replica 0's weights are somewhere else.
void TensorModel::share_weights(size_t parameter) {
  const at::Tensor weights = replicas_[0].parameters[parameter].detach();
  if (!weights.is_cpu()) return;
  for (auto& replica : std::span(replicas_).subspan(1)) replica.parameters[parameter].set_data(weights);
}

void TensorModel::refresh_views() {
  parameter_views_.clear();
  for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
    if (has_master(i)) weights_[i].set_requires_grad(replicas_[0].parameters[i].requires_grad());
    parameter_views_.push_back(abi_tensor(weights_[i], parameter_names_[i], i));
  }
}

// Made each time: a program may give a buffer other memory, or another size.
std::span<const cohort_tensor> TensorModel::buffers() {
  buffer_views_.clear();
  for (uint32_t i = 0; i < buffer_names_.size(); ++i) {
    buffer_views_.push_back(abi_tensor(replicas_[0].buffers[i], buffer_names_[i], i));
  }
  return buffer_views_;
}

void TensorModel::place_gradients(std::span<void* const> places) {
  for (size_t i = 0; i < places.size(); ++i) {
    at::Tensor& place = gradient_places_[i];
    if (place.defined()) forget_gradient(static_cast<uint32_t>(i));
    if (place.defined() && is_held(place)) places_before_.push_back(place);
    place = places[i] ? tensor_over(places[i], weights_[i]) : at::Tensor();
  }
}

bool TensorModel::lend_memory(std::span<const std::span<std::byte>> memory) {
  for (uint32_t i = 0; gradient_slots_ && i < parameter_names_.size(); ++i) forget_gradient(i);
  if (gradient_slots_) slots_before_.push_back(std::move(gradient_slots_));
  std::erase_if(slots_before_, [](const auto& slots) { return slots->in_use() == 0; });
  if (!memory.empty()) gradient_slots_ = std::make_unique<GradientSlots>(memory);
  std::erase_if(places_before_, [](const at::Tensor& place) { return !is_held(place); });
  return slots_before_.empty() && places_before_.empty();
}

void* TensorModel::gradient_data(uint32_t replica, uint32_t parameter) {
  const at::Tensor& gradient = replicas_[replica].complete[parameter];
  return gradient.defined() ? gradient.data_ptr() : nullptr;
}

bool TensorModel::has_gradient(uint32_t replica, uint32_t parameter) {
  if (has_master(parameter)) return replicas_[replica].complete[parameter].defined();
  return replicas_[replica].parameters[parameter].grad().defined();
}

void TensorModel::move_weights(std::span<void* const> places) {
  for (size_t i = 0; i < places.size(); ++i) {
    if (!places[i] && !moved_[i]) continue;
    at::Tensor& parameter = weights_[i];
    const at::Tensor weights = parameter.detach();
    at::Tensor target = places[i] ? tensor_over(places[i], weights) : at::empty_like(weights);
    target.copy_(weights);
    parameter.set_data(target);
    if (!has_master(i)) share_weights(i);
    moved_[i] = places[i] != nullptr;
  }
  refresh_views();
}

void TensorModel::zero_gradient(uint32_t replica, uint32_t parameter) {
  at::Tensor& complete = replicas_[replica].complete[parameter];
  replicas_[replica].parameters[parameter].mutable_grad().reset();
  complete.reset();
  if (replica > 0) return;
  const at::Tensor& place = gradient_places_[parameter];
  at::Tensor& gradient = weights_[parameter].mutable_grad();
  gradient.reset();
  complete = place.defined() ? place.zero_() : at::zeros_like(weights_[parameter]);
  if (!place.defined()) gradient = complete;
}

void TensorModel::refresh_replicas() {
  const at::NoGradGuard no_grad;
  const Replica& source = replicas_[0];
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (has_master(i)) source.parameters[i].copy_(weights_[i]);
  }
  for (size_t number = 1; number < replicas_.size(); ++number) {
    Replica& replica = replicas_[number];
    for (size_t i = 0; i < source.buffers.size(); ++i) replica.buffers[i].copy_(source.buffers[i]);
    for (size_t i = 0; i < source.parameters.size(); ++i) {
      if (!source.parameters[i].is_cpu()) replica.parameters[i].copy_(source.parameters[i]);
    }
  }
}

void TensorModel::on_gradient(GradientReady ready) {
  ready_ = std::move(ready);
  for (uint32_t number = 0; number < replicas_.size(); ++number) {
    for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
      const at::Tensor& parameter = replicas_[number].parameters[i];
      if (ready_ && !parameter.requires_grad()) continue;  // hooks of what was frozen since go as well
      auto hook = ready_ ? std::make_unique<Hook>(this, i, number) : nullptr;
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::move(hook));
    }
  }
}

std::string TensorModel::frozen_or_unfrozen() const {
  for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
    if (replicas_[0].parameters[i].requires_grad() != is_trained(i)) return parameter_names_[i];
  }
  return "";
}

void TensorModel::follow_frozen() {
  for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
    const bool is_trained_now = replicas_[0].parameters[i].requires_grad();
    for (auto& replica : std::span(replicas_).subspan(1)) replica.parameters[i].set_requires_grad(is_trained_now);
    if (!is_trained_now) forget_gradient(i);
  }
  refresh_views();
  find_phases();
  if (ready_) on_gradient(ready_);
}

void TensorModel::follow_devices() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) {
    const at::Device device = replicas_[0].parameters[i].device();
    if (weights_[i].device() != device) weights_[i].set_data(weights_[i].detach().to(device));
  }
  hosted_->follow_devices();
  refresh_views();
  if (!scalings_.empty()) set_scalings();
}

void TensorModel::gradient_computed(uint32_t parameter, uint32_t number) {
  Replica& replica = replicas_[number];
  at::Tensor& gradient = replica.parameters[parameter].mutable_grad();
  if (!gradient.defined()) return;
  if (gradient.layout() != at::kStrided) {
    throw UserError("the gradient of '" + parameter_names_[parameter] +
                    "' is sparse, which cannot be averaged over ranks; use a dense one (Embedding with sparse(false))");
  }
  if (has_master(parameter)) {
    add_to_master(parameter, number);
    return ready_(parameter, number);
  }
  if (const at::Tensor& place = gradient_places_[parameter]; number == 0 && place.defined()) {
    if (gradient.data_ptr() != place.data_ptr()) place.copy_(gradient.detach());  // else a micro-batch added in place
    gradient = place;
  } else if (is_of_several_tensors(gradient) || !is_laid_out_as(gradient, replica.parameters[parameter])) {
    gradient = at::empty_like(replica.parameters[parameter]).copy_(gradient.detach());
  }
  const at::Tensor& target = replicas_[0].parameters[parameter];
  const bool is_elsewhere = gradient.device() != target.device();
  replica.complete[parameter] = is_elsewhere ? at::empty_like(target).copy_(gradient.detach()) : gradient;
  ready_(parameter, number);
}

std::vector<at::Tensor> TensorModel::trained(uint32_t replica, uint32_t phase) const {
  std::vector<at::Tensor> parameters;
  for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
    const at::Tensor& parameter = replicas_[replica].parameters[i];
    if (phase_of_[i] == phase && parameter.requires_grad()) parameters.push_back(parameter);
  }
  return parameters;
}

std::vector<uint32_t> TensorModel::optimized() const {
  std::unordered_set<const void*> given;
  for (size_t phase = 0; phase < optimizers_.size(); ++phase) {
    for (const auto& group : optimizers_[phase].param_groups()) {
      for (const at::Tensor& parameter : group.params()) given.insert(parameter.unsafeGetTensorImpl());
    }
  }
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
    if (is_trained(i) && given.contains(weights_[i].unsafeGetTensorImpl())) numbers.push_back(i);
  }
  return numbers;
}

uint32_t TensorModel::number_of(const at::Tensor& parameter) const {
  const auto found = numbers_.find(parameter.unsafeGetTensorImpl());
  if (found == numbers_.end()) throw UserError("the tensor is no parameter of the module");
  return found->second;
}

std::vector<at::Tensor> TensorModel::gradients(uint32_t phase) const {
  std::vector<at::Tensor> gradients;
  for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
    const at::Tensor& gradient = weights_[i].grad();
    if (phase_of_[i] == phase && gradient.defined()) gradients.push_back(gradient);
  }
  return gradients;
}

void TensorModel::clip_gradients(uint32_t phase, const cohort_clip_args& args) {
  if (parameter_names_.empty()) {
    if (args.norm) *args.norm = 0;
    return;
  }
  std::vector<at::Tensor> shown = gradients(phase);
  if (shown.empty()) shown.push_back(at::zeros({1}, weights_.at(0).options().requires_grad(false)));
  cohort::clip_gradients(shown, args);
}

void TensorModel::show_gradient(uint32_t parameter) {
  at::Tensor& gradient = weights_[parameter].mutable_grad();
  if (gradient_places_[parameter].defined()) gradient = gradient_places_[parameter];
}

void TensorModel::show_zero_gradient(uint32_t parameter) {
  show_gradient(parameter);
  at::Tensor& gradient = weights_[parameter].mutable_grad();
  if (!gradient.defined()) gradient = at::zeros_like(weights_[parameter].detach());
}

void TensorModel::hide_gradient(uint32_t parameter) {
  for (Replica& replica : replicas_) replica.parameters[parameter].mutable_grad().reset();
  weights_[parameter].mutable_grad().reset();
}

void TensorModel::forget_gradient(uint32_t parameter) {
  hide_gradient(parameter);
  for (Replica& replica : replicas_) replica.complete[parameter].reset();
}

void TensorModel::keep_losses() {
  losses_ = std::make_unique<StepLosses>(num_phases(), num_replicas());
}

const float* TensorModel::loss(uint32_t phase, uint32_t parameter) {
  const at::Device device = parameter < weights_.size() ? weights_[parameter].device() : at::kCPU;
  return losses_ ? losses_->sum(phase, device) : nullptr;
}

void TensorModel::forget_gradients(uint32_t phase) {
  if (losses_) losses_->reset(phase);
  for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
    if (phase_of_[i] == phase) forget_gradient(i);
  }
}

}  // namespace cohort
