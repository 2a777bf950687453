#include "clip.hpp"

#include <cmath>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

namespace cohort {
namespace {

constexpr double kEpsilon = 1e-6;  // torch.nn.utils.clip_grad_norm_

// Norm and factor stay on the device: nothing waits for them.
at::Tensor norm_of(const std::vector<at::Tensor>& gradients) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients) {
    norms.push_back(at::linalg_vector_norm(gradient).to(gradients[0].device()));
  }
  return at::linalg_vector_norm(at::stack(norms));
}

void limit_norm(const std::vector<at::Tensor>& gradients, const at::Tensor& norm, double limit) {
  const at::Tensor factor = norm.add(kEpsilon).reciprocal().mul(limit).clamp_max(1.0);
  for (const at::Tensor& gradient : gradients) gradient.mul_(factor.to(gradient.device()));
}

}  // namespace

void clip_gradients(const std::vector<at::Tensor>& gradients, const cohort_clip_args& args) {
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  const bool limits = !std::isinf(args.limit);
  const bool by_norm = args.by == COHORT_CLIP_NORM;
  at::Tensor norm;
  if (args.norm || (limits && by_norm)) norm = norm_of(gradients);
  if (args.norm) at::from_blob(args.norm, {}, gradients[0].options().dtype(at::kDouble)).copy_(norm);
  if (!limits) return;
  if (by_norm) return limit_norm(gradients, norm, args.limit);
  for (const at::Tensor& gradient : gradients) gradient.clamp_(-args.limit, args.limit);
}

}  // namespace cohort
