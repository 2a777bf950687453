#include "loop/gradient_norm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>

namespace cohort {
namespace {

double norm_of(std::vector<at::Tensor> norms, double p) {
  if (norms.empty()) return 0;
  for (at::Tensor& norm : norms) norm = norm.to(norms[0].device());
  return at::linalg_vector_norm(at::stack(norms), p).item<double>();
}

/// Puts the norm of what all ranks have together with the norms of what each has alone.
double together(Runtime& runtime, double shared, double own, double p) {
  std::array<double, 1> others{std::isinf(p) ? own : std::pow(own, p)};
  if (std::isinf(p)) {
    runtime.all_reduce_max(others);
    return std::max(shared, others[0]);
  }
  runtime.all_reduce_sum(others);
  return std::pow(std::pow(shared, p) + others[0], 1 / p);
}

}  // namespace

double gradient_norm(StepDriver& session, size_t optimizer, double p) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> shared, own;
  bool has_owners = false;
  for (const auto& group : session.optimizers()[optimizer].param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.requires_grad()) continue;
      const auto keeper = session.state_keeper(parameter);
      has_owners = has_owners || keeper != host::StateKeeper::kEveryRank;
      if (!parameter.grad().defined() || keeper == host::StateKeeper::kAnotherRank) continue;
      auto& norms = keeper == host::StateKeeper::kThisRank ? own : shared;
      norms.push_back(at::linalg_vector_norm(parameter.grad(), p).to(at::kDouble));
    }
  }
  const double of_shared = norm_of(shared, p);
  return has_owners ? together(session.runtime(), of_shared, norm_of(own, p), p) : of_shared;
}

}  // namespace cohort
