#include "clip.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

namespace cohort {
namespace {

constexpr double kEpsilon = 1e-6;  // torch.nn.utils.clip_grad_norm_

// The factor stays on the device: nothing waits for it.
void clip_norm(const std::vector<at::Tensor>& gradients, double limit) {
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients) {
    norms.push_back(at::linalg_vector_norm(gradient).to(gradients[0].device()));
  }
  const at::Tensor factor =
      at::linalg_vector_norm(at::stack(norms)).add(kEpsilon).reciprocal().mul(limit).clamp_max(1.0);
  for (const at::Tensor& gradient : gradients) gradient.mul_(factor.to(gradient.device()));
}

}  // namespace

void clip_gradients(const std::vector<at::Tensor>& gradients, const GradientClip& clip) {
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  if (clip.by == GradientClip::By::kNorm) return clip_norm(gradients, clip.limit);
  for (const at::Tensor& gradient : gradients) gradient.clamp_(-clip.limit, clip.limit);
}

}  // namespace cohort
