// Predictions and targets of classes, checked and brought into one form. What does not fit is refused by the metric
// that is given.
#pragma once

#include <ATen/core/Tensor.h>

#include <cohort/metric_kinds.hpp>

namespace cohort::metric {

/// Refuses fewer than two classes.
void check_classes(const Multiclass& classes, const Metric& metric);
void check_same_shape(const at::Tensor& predictions, const at::Tensor& targets, const Metric& metric);
/// Refuses what is no label from 0 to `count` - 1. `what` names the tensor.
void check_labels(const at::Tensor& labels, int64_t count, const char* what, const Metric& metric);

/// Labels of all samples, one behind the other, of type long.
struct Labels {
  at::Tensor predicted, target;
};
/// Takes the highest of several scores as the prediction, or the target if it is one of the `top_k` highest.
Labels labels_of(const at::Tensor& predictions, const at::Tensor& targets, const Multiclass& classes, int64_t top_k,
                 const Metric& metric);
Labels labels_of(const at::Tensor& predictions, const at::Tensor& targets, const Binary& binary, const Metric& metric);

/// Probabilities of the classes as [samples, num_classes], or of class 1 as [samples], and the labels of the samples.
struct Probabilities {
  at::Tensor predicted, target;
};
Probabilities probabilities_of(const at::Tensor& predictions, const at::Tensor& targets, const Multiclass& classes,
                               const Metric& metric);
Probabilities probabilities_of(const at::Tensor& predictions, const at::Tensor& targets, const Metric& metric);

}  // namespace cohort::metric
