#include "labels.hpp"

#include <string>
#include <tuple>
#include <vector>

#include <ATen/ops/where.h>
#include <c10/util/StringUtil.h>

namespace cohort::metric {
namespace {

std::string shape_of(const at::Tensor& tensor) {
  return c10::str(tensor.sizes());
}

bool is_integral(const at::Tensor& tensor) {
  return at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

/// Returns whether the predictions are scores, [N, classes, ...] for targets [N, ...].
bool are_scores(const at::Tensor& predictions, const at::Tensor& targets, int64_t classes) {
  if (targets.dim() == 0 || predictions.dim() != targets.dim() + 1) return false;
  std::vector<int64_t> wanted = targets.sizes().vec();
  wanted.insert(wanted.begin() + 1, classes);
  return predictions.sizes() == wanted;
}

/// [N, classes, ...] as [samples, classes].
at::Tensor rows_of(const at::Tensor& scores) {
  return scores.movedim(1, -1).reshape({-1, scores.size(1)});
}

void check_scores(const at::Tensor& predictions, const at::Tensor& targets, int64_t classes, const Metric& metric) {
  if (!are_scores(predictions, targets, classes)) {
    metric.refuse("update was given predictions of shape " + shape_of(predictions) + " and targets of shape " +
                  shape_of(targets) + "; give scores [N, " + std::to_string(classes) +
                  ", ...], a row for each target, and labels [N, ...]");
  }
}

/// Half precision is too coarse for probabilities.
at::Tensor in_full_precision(const at::Tensor& scores) {
  return scores.scalar_type() == at::kDouble ? scores : scores.to(at::kFloat);
}

bool are_probabilities(const at::Tensor& scores) {
  return scores.numel() == 0 || scores.ge(0).logical_and(scores.le(1)).all().item<bool>();
}

}  // namespace

void check_classes(const Multiclass& classes, const Metric& metric) {
  if (classes.num_classes >= 2) return;
  metric.refuse("num_classes is " + std::to_string(classes.num_classes) +
                "; give the number of classes, 2 or more, or metric::Binary");
}

void check_same_shape(const at::Tensor& predictions, const at::Tensor& targets, const Metric& metric) {
  if (predictions.sizes() == targets.sizes()) return;
  metric.refuse("update was given predictions of shape " + shape_of(predictions) + " and targets of shape " +
                shape_of(targets) + "; give both the same shape, for example with squeeze or view_as");
}

void check_labels(const at::Tensor& labels, int64_t count, const char* what, const Metric& metric) {
  if (!is_integral(labels)) {
    metric.refuse(std::string("update was given ") + what + " of type " + c10::toString(labels.scalar_type()) +
                  "; give labels as whole numbers, for example with to(torch::kLong)");
  }
  if (labels.numel() == 0) return;
  const at::Tensor numbers = labels.to(at::kLong);
  const auto lowest = numbers.min().item<int64_t>(), highest = numbers.max().item<int64_t>();
  if (lowest >= 0 && highest < count) return;
  metric.refuse(std::string("update was given ") + what + " with the label " +
                std::to_string(lowest < 0 ? lowest : highest) + "; labels go from 0 to " + std::to_string(count - 1));
}

Labels labels_of(const at::Tensor& predictions, const at::Tensor& targets, const Multiclass& classes, int64_t top_k,
                 const Metric& metric) {
  check_labels(targets, classes.num_classes, "targets", metric);
  const at::Tensor target = targets.flatten().to(at::kLong);
  if (top_k == 1 && predictions.sizes() == targets.sizes()) {
    check_labels(predictions, classes.num_classes, "predictions", metric);
    return {predictions.flatten().to(at::kLong), target};
  }
  check_scores(predictions, targets, classes.num_classes, metric);
  if (top_k == 1) return {predictions.argmax(1).flatten(), target};
  const at::Tensor best = std::get<1>(rows_of(predictions).topk(top_k, 1));
  const at::Tensor is_among = best.eq(target.unsqueeze(1)).any(1);
  return {at::where(is_among, target, best.select(1, 0)), target};
}

Labels labels_of(const at::Tensor& predictions, const at::Tensor& targets, const Binary& binary, const Metric& metric) {
  check_same_shape(predictions, targets, metric);
  check_labels(targets, 2, "targets", metric);
  const at::Tensor target = targets.flatten().to(at::kLong);
  if (is_integral(predictions)) {
    check_labels(predictions, 2, "predictions", metric);
    return {predictions.flatten().to(at::kLong), target};
  }
  const at::Tensor scores = predictions.flatten();
  const at::Tensor probabilities = are_probabilities(scores) ? scores : in_full_precision(scores).sigmoid();
  return {probabilities.gt(binary.threshold).to(at::kLong), target};
}

Probabilities probabilities_of(const at::Tensor& predictions, const at::Tensor& targets, const Multiclass& classes,
                               const Metric& metric) {
  check_labels(targets, classes.num_classes, "targets", metric);
  check_scores(predictions, targets, classes.num_classes, metric);
  const at::Tensor scores = in_full_precision(rows_of(predictions));
  return {are_probabilities(scores) ? scores : scores.softmax(1), targets.flatten()};
}

Probabilities probabilities_of(const at::Tensor& predictions, const at::Tensor& targets, const Metric& metric) {
  check_same_shape(predictions, targets, metric);
  check_labels(targets, 2, "targets", metric);
  const at::Tensor scores = in_full_precision(predictions.flatten());
  return {are_probabilities(scores) ? scores : scores.sigmoid(), targets.flatten()};
}

}  // namespace cohort::metric
