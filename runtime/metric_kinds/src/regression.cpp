// Metrics of numbers and of tokens; sums are in double precision.
#include <cohort/metric_kinds.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/StringUtil.h>

#include "labels.hpp"

namespace cohort::metric {
namespace {

constexpr int64_t kNothingIsIgnored = -100;  // cross_entropy_loss wants a number; it is no token

at::Tensor count_of(int64_t number) {
  return at::scalar_tensor(number, at::kLong);
}

/// Returns the differences in double precision.
at::Tensor differences(const at::Tensor& predictions, const at::Tensor& targets, const Metric& metric) {
  check_same_shape(predictions, targets, metric);
  return predictions.to(at::kDouble) - targets.to(at::kDouble);
}

/// torchmetrics takes sums of squares up to this for 0.
at::Tensor is_about_zero(const at::Tensor& sums) {
  constexpr double kAlmostNothing = 1e-4;
  return sums.abs().le(kAlmostNothing);
}

}  // namespace

MeanSquaredError::MeanSquaredError() {
  add_state("sum", at::zeros({}, at::kDouble), Reduce::kSum);
  add_state("elements", at::zeros({}, at::kLong), Reduce::kSum);
}

void MeanSquaredError::update(const at::Tensor& predictions, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  add("sum", differences(predictions, targets, *this).square().sum());
  add("elements", count_of(targets.numel()));
}

at::Tensor MeanSquaredError::compute() const {
  return state("sum") / state("elements");
}

MeanAbsoluteError::MeanAbsoluteError() {
  add_state("sum", at::zeros({}, at::kDouble), Reduce::kSum);
  add_state("elements", at::zeros({}, at::kLong), Reduce::kSum);
}

void MeanAbsoluteError::update(const at::Tensor& predictions, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  add("sum", differences(predictions, targets, *this).abs().sum());
  add("elements", count_of(targets.numel()));
}

at::Tensor MeanAbsoluteError::compute() const {
  return state("sum") / state("elements");
}

R2Score::R2Score() {
  for (const char* name : {"sum", "squares", "residuals"}) add_state(name, at::zeros({}, at::kDouble), Reduce::kSum);
  add_state("samples", at::zeros({}, at::kLong), Reduce::kSum);
}

void R2Score::update(const at::Tensor& predictions, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  const at::Tensor residuals = differences(predictions, targets, *this);
  if (targets.dim() != 1 && targets.dim() != 2) {
    refuse("update was given targets of shape " + c10::str(targets.sizes()) + "; give [N] or [N, outputs]");
  }
  const at::Tensor numbers = targets.to(at::kDouble);
  add("sum", numbers.sum(0));
  add("squares", numbers.square().sum(0));
  add("residuals", residuals.square().sum(0));
  add("samples", count_of(targets.size(0)));
}

at::Tensor R2Score::compute() const {
  const at::Tensor sum = state("sum"), residuals = state("residuals"), samples = state("samples");
  if (samples.item<int64_t>() < 2) refuse("it needs two samples at least, and has seen fewer; give it more data");
  const at::Tensor total = state("squares") - sum.square() / samples;
  const at::Tensor is_exact = is_about_zero(residuals), is_constant = is_about_zero(total);
  const at::Tensor scores = at::where(is_constant, 0.0, 1 - residuals / total);
  return at::where(is_exact, 1.0, scores).mean();
}

Perplexity::Perplexity(std::optional<int64_t> ignore_index) : ignore_index_(ignore_index) {
  add_state("sum", at::zeros({}, at::kDouble), Reduce::kSum);
  add_state("tokens", at::zeros({}, at::kLong), Reduce::kSum);
}

void Perplexity::update(const at::Tensor& predictions, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  if (predictions.dim() != targets.dim() + 1 ||
      predictions.sizes().slice(0, targets.sizes().size()) != targets.sizes()) {
    refuse("update was given predictions of shape " + c10::str(predictions.sizes()) + " and targets of shape " +
           c10::str(targets.sizes()) + "; give logits [..., vocabulary] and tokens [...]");
  }
  const int64_t vocabulary = predictions.size(-1);
  const at::Tensor tokens = targets.flatten();
  const at::Tensor counted = ignore_index_ ? tokens.masked_select(tokens.ne(*ignore_index_)) : tokens;
  check_labels(counted, vocabulary, "targets", *this);
  const at::Tensor logits = predictions.reshape({-1, vocabulary});
  const at::Tensor losses =
      at::cross_entropy_loss(logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat), tokens.to(at::kLong),
                             /*weight=*/{}, at::Reduction::None, ignore_index_.value_or(kNothingIsIgnored));
  add("sum", losses.to(at::kDouble).sum());
  add("tokens", count_of(counted.numel()));
}

at::Tensor Perplexity::compute() const {
  return (state("sum") / state("tokens")).exp();
}

}  // namespace cohort::metric
