#include "clip.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

namespace cohort {
namespace {

constexpr double kEpsilon = 1e-6;  // torch.nn.utils.clip_grad_norm_

using Place = std::pair<c10::DeviceIndex, c10::ScalarType>;

Place place_of(const at::Tensor& gradient) {
  return {gradient.device().index(), gradient.scalar_type()};
}

// One call for all gradients of a device and a type; a call for each would launch kernels of its own.
std::map<Place, std::vector<at::Tensor>> by_place(const std::vector<at::Tensor>& gradients) {
  std::map<Place, std::vector<at::Tensor>> parts;
  for (const at::Tensor& gradient : gradients) parts[place_of(gradient)].push_back(gradient);
  return parts;
}

// Norm and factor stay on the device: nothing waits for them.
at::Tensor norm_of(const std::vector<at::Tensor>& gradients) {
  std::map<Place, std::vector<at::Tensor>> norms_of;
  for (const auto& [place, part] : by_place(gradients)) {
    norms_of[place] = at::_foreach_norm(part);
    std::ranges::reverse(norms_of[place]);
  }
  std::vector<at::Tensor> norms;  // in the order of the gradients, so that the sum does not depend on their devices
  for (const at::Tensor& gradient : gradients) {
    std::vector<at::Tensor>& rest = norms_of[place_of(gradient)];
    norms.push_back(rest.back().to(gradients[0].device()));
    rest.pop_back();
  }
  return at::linalg_vector_norm(at::stack(norms));
}

void limit_norm(const std::vector<at::Tensor>& gradients, const at::Tensor& norm, double limit) {
  const at::Tensor factor = norm.add(kEpsilon).reciprocal().mul(limit).clamp_max(1.0);
  for (const auto& [place, part] : by_place(gradients)) {
    const bool is_narrow = c10::isReducedFloatingType(place.second);  // in which a small factor would be 0
    at::_foreach_mul_(part, factor.to(part[0].device(), is_narrow ? at::kFloat : place.second));
  }
}

}  // namespace

void clip_gradients(const std::vector<at::Tensor>& gradients, const cohort_clip_args& args) {
  if (gradients.empty()) return;
  const at::NoGradGuard no_grad;
  const bool limits = !std::isinf(args.limit);
  const bool by_norm = args.by == COHORT_CLIP_NORM;
  const auto as_double = gradients[0].options().dtype(at::kDouble);
  at::Tensor norm;
  if (args.given_norm) {
    norm = at::from_blob(const_cast<double*>(args.given_norm), {}, as_double);
  } else if (args.norm || (limits && by_norm)) {
    norm = norm_of(gradients);
  }
  if (args.norm && args.norm != args.given_norm) at::from_blob(args.norm, {}, as_double).copy_(norm);
  if (!limits) return;
  if (by_norm) return limit_norm(gradients, norm, args.limit);
  for (const at::Tensor& gradient : gradients) gradient.clamp_(-args.limit, args.limit);
}

}  // namespace cohort
