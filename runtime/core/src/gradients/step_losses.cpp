#include "step_losses.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

namespace cohort {

StepLosses::StepLosses(uint32_t num_phases, uint32_t num_replicas)
    : phases_(num_phases, Phase{{}, std::vector<at::Tensor>(num_replicas)}) {}

void StepLosses::reset(uint32_t phase) {
  for (at::Tensor& sum : phases_[phase].of_replicas) {
    if (sum.defined()) sum.zero_();
  }
}

void StepLosses::add(uint32_t phase, uint32_t replica, const at::Tensor& loss, double scale) {
  at::Tensor& sum = phases_[phase].of_replicas[replica];
  if (!sum.defined()) sum = at::zeros({}, loss.options().dtype(at::kFloat).requires_grad(false));
  sum.add_(loss.detach().reshape({}).to(sum.device()), scale);
}

std::vector<at::Tensor> StepLosses::copy(uint32_t phase) const {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& sum : phases_[phase].of_replicas) copies.push_back(sum.defined() ? sum.clone() : sum);
  return copies;
}

void StepLosses::restore(uint32_t phase, const std::vector<at::Tensor>& copies) {
  std::vector<at::Tensor>& sums = phases_[phase].of_replicas;
  for (size_t replica = 0; replica < sums.size(); ++replica) {
    if (copies[replica].defined()) {
      sums[replica].copy_(copies[replica]);
    } else if (sums[replica].defined()) {
      sums[replica].zero_();
    }
  }
}

const float* StepLosses::sum(uint32_t phase, at::Device device) {
  at::Tensor& sum = phases_[phase].sums[device.index()];
  if (!sum.defined()) sum = at::empty({}, at::TensorOptions(at::kFloat).device(device));
  sum.zero_();
  for (const at::Tensor& one : phases_[phase].of_replicas) {
    if (one.defined()) sum.add_(one.to(device));
  }
  return sum.const_data_ptr<float>();
}

}  // namespace cohort
