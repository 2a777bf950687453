// Gradients that earlier micro-batches of a step have added up, kept for a backward that may fail.
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

#include "tensor_model.hpp"

namespace cohort {
namespace {

using Sum = TensorModel::GradientSums::Sum;

Sum sum_of(const at::Tensor& gradient) {
  return gradient.defined() ? Sum{gradient, gradient.detach().clone()} : Sum{};
}

/// Returns the tensor with the values that it had.
at::Tensor restored(const Sum& sum) {
  if (sum.place.defined()) sum.place.copy_(sum.copy);
  return sum.place;
}

}  // namespace

TensorModel::GradientSums TensorModel::gradient_sums(uint32_t phase) const {
  const at::NoGradGuard no_grad;
  GradientSums sums;
  if (losses_) sums.losses = losses_->copy(phase);
  for (const Replica& replica : replicas_) {
    for (uint32_t i = 0; i < parameter_names_.size(); ++i) {
      const bool is_of_phase = phase_of_[i] == phase;
      sums.gradients.push_back(is_of_phase ? sum_of(replica.parameters[i].grad()) : Sum{});
      const Sum& own = sums.gradients.back();
      const bool is_same = own.place.defined() && own.place.is_same(replica.complete[i]);
      sums.complete.push_back(is_same || !is_of_phase ? own : sum_of(replica.complete[i]));
    }
  }
  return sums;
}

void TensorModel::restore_gradients(uint32_t phase, const GradientSums& sums) {
  const at::NoGradGuard no_grad;
  if (losses_) losses_->restore(phase, sums.losses);
  size_t index = 0;
  for (uint32_t number = 0; number < replicas_.size(); ++number) {
    Replica& replica = replicas_[number];
    for (uint32_t i = 0; i < parameter_names_.size(); ++i, ++index) {
      if (phase_of_[i] != phase) continue;
      replica.parameters[i].mutable_grad() = restored(sums.gradients[index]);
      replica.complete[i] = restored(sums.complete[index]);
      if (has_master(i) && number == 0) weights_[i].mutable_grad() = replica.complete[i];
    }
  }
}

}  // namespace cohort
