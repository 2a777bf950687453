// Metrics of classes. Scores stand on counts of each class, which take no more memory than the classes are many: with
// the words of a language a confusion matrix would not fit.
#include <cohort/metric_kinds.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/trapezoid.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "labels.hpp"

namespace cohort::metric {
namespace {

/// Returns the quotient, and 0 where the denominator is 0.
at::Tensor quotient(const at::Tensor& numerator, const at::Tensor& denominator) {
  return at::where(denominator.eq(0), 0.0, numerator / denominator);
}

/// Gives the scores of all classes as the average wants them.
at::Tensor averaged(const at::Tensor& scores, Average average, const at::Tensor& weights) {
  if (average == Average::kNone) return scores;
  return quotient(scores.mul(weights).sum(), weights.sum());
}

/// Returns the area under the ROC curve; 0 without a sample of either class.
at::Tensor area_under_roc(const at::Tensor& scores, const at::Tensor& is_positive) {
  const at::Tensor order = scores.argsort(/*dim=*/0, /*descending=*/true);
  const at::Tensor sorted = scores.index_select(0, order);
  // A threshold is the last of equal scores.
  const int64_t samples = sorted.size(0);
  const at::Tensor falls = sorted.slice(0, 1).ne(sorted.slice(0, 0, samples - 1)).nonzero().flatten();
  const at::Tensor thresholds = at::cat({falls, at::full({1}, samples - 1, falls.options())});
  const at::Tensor hits = is_positive.index_select(0, order).to(at::kLong).cumsum(0).index_select(0, thresholds);
  const at::Tensor begin = at::zeros({1}, at::kDouble);
  const at::Tensor tp = at::cat({begin, hits.to(at::kDouble)});
  const at::Tensor fp = at::cat({begin, (thresholds + 1 - hits).to(at::kDouble)});
  return quotient(at::trapezoid(tp, fp), tp[-1] * fp[-1]);
}

}  // namespace

ClassScore::ClassScore(Multiclass classes, int64_t top_k) : classes_(classes), top_k_(top_k) {
  check_classes(classes, *this);
  if (top_k < 1 || top_k > classes.num_classes) {
    refuse("top_k is " + std::to_string(top_k) + "; give a number from 1 to the number of classes, " +
           std::to_string(classes.num_classes));
  }
  for (const char* name : {"tp", "fp", "fn"}) {
    add_state(name, at::zeros({classes.num_classes}, at::kLong), Reduce::kSum);
  }
}

ClassScore::ClassScore(Binary binary) : binary_(binary) {
  for (const char* name : {"tp", "fp", "fn", "tn"}) add_state(name, at::zeros({}, at::kLong), Reduce::kSum);
}

void ClassScore::update(const at::Tensor& predictions, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  if (!classes_) {
    const auto [predicted, target] = labels_of(predictions, targets, binary_, *this);
    const at::Tensor tp = (predicted * target).sum();
    add("tp", tp);
    add("fp", predicted.sum() - tp);
    add("fn", target.sum() - tp);
    add("tn", ((1 - predicted) * (1 - target)).sum());
    return;
  }
  const auto [predicted, target] = labels_of(predictions, targets, *classes_, top_k_, *this);
  const auto count = [classes = classes_->num_classes](const at::Tensor& labels, const at::Tensor& mask) {
    return at::bincount(labels.masked_select(mask), {}, classes);
  };
  const at::Tensor hit = predicted.eq(target), miss = hit.logical_not();
  add("tp", count(target, hit));
  add("fp", count(predicted, miss));
  add("fn", count(target, miss));
}

at::Tensor ClassScore::compute() const {
  const auto number = [this](const char* name) { return state(name).to(at::kDouble); };
  Counts counts{number("tp"), number("fp"), number("fn"), {}};
  const Average average = classes_ ? classes_->average.value_or(Average::kMicro) : Average::kMicro;
  if (!classes_) counts.tn = number("tn");
  if (classes_ && average == Average::kMicro) counts = {counts.tp.sum(), counts.fp.sum(), counts.fn.sum(), {}};
  const Fraction score = fraction(counts);
  const at::Tensor scores = quotient(score.numerator, score.denominator);
  if (average == Average::kMicro) return scores;
  const at::Tensor support = counts.tp + counts.fn;
  if (average != Average::kMacro) return averaged(scores, average, support);
  // A class that neither targets nor predictions have does not count; with top_k the targets decide.
  return averaged(scores, average, (top_k_ == 1 ? support + counts.fp : support).ne(0).to(at::kDouble));
}

ClassScore::Fraction Accuracy::fraction(const Counts& counts) const {
  if (counts.tn.defined()) return {counts.tp + counts.tn, counts.tp + counts.tn + counts.fp + counts.fn};
  return {counts.tp, counts.tp + counts.fn};
}

ClassScore::Fraction Precision::fraction(const Counts& counts) const {
  return {counts.tp, counts.tp + counts.fp};
}

ClassScore::Fraction Recall::fraction(const Counts& counts) const {
  return {counts.tp, counts.tp + counts.fn};
}

ClassScore::Fraction F1Score::fraction(const Counts& counts) const {
  return {2 * counts.tp, 2 * counts.tp + counts.fp + counts.fn};
}

ConfusionMatrix::ConfusionMatrix(Multiclass classes) : classes_(classes) {
  check_classes(classes, *this);
  if (classes.average) refuse("there is no average of a matrix; leave `average` out");
  add_state("counts", at::zeros({classes.num_classes, classes.num_classes}, at::kLong), Reduce::kSum);
}

ConfusionMatrix::ConfusionMatrix(Binary binary) : binary_(binary) {
  add_state("counts", at::zeros({2, 2}, at::kLong), Reduce::kSum);
}

void ConfusionMatrix::update(const at::Tensor& predictions, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  const int64_t count = classes_ ? classes_->num_classes : 2;
  const auto [predicted, target] = classes_ ? labels_of(predictions, targets, *classes_, /*top_k=*/1, *this)
                                            : labels_of(predictions, targets, binary_, *this);
  add("counts", at::bincount(target * count + predicted, {}, count * count).view({count, count}));
}

at::Tensor ConfusionMatrix::compute() const {
  return state("counts");
}

AUROC::AUROC(Multiclass classes) : classes_(classes) {
  check_classes(classes, *this);
  if (classes.average == Average::kMicro) refuse("there is no Average::kMicro of it; give kMacro, kWeighted or kNone");
  add_state("scores", at::empty({0, classes.num_classes}), Reduce::kConcatenate);
  add_state("targets", at::empty({0}, at::kInt), Reduce::kConcatenate);
}

AUROC::AUROC(Binary) {
  add_state("scores", at::empty({0}), Reduce::kConcatenate);
  add_state("targets", at::empty({0}, at::kInt), Reduce::kConcatenate);
}

void AUROC::update(const at::Tensor& predictions, const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  const auto [scores, target] = classes_ ? probabilities_of(predictions, targets, *classes_, *this)
                                         : probabilities_of(predictions, targets, *this);
  add("scores", scores);
  add("targets", target.to(at::kInt));
}

at::Tensor AUROC::compute() const {
  const at::Tensor scores = state("scores"), targets = state("targets");
  if (targets.numel() == 0) refuse("it has seen no sample; update it with a batch that has one");
  if (!classes_) return area_under_roc(scores, targets);
  const at::Tensor labels = at::arange(classes_->num_classes, at::kInt);
  const at::Tensor is_of_class = targets.unsqueeze(1).eq(labels);
  std::vector<at::Tensor> areas;
  for (int64_t label = 0; label < classes_->num_classes; ++label) {
    areas.push_back(area_under_roc(scores.select(1, label), is_of_class.select(1, label)));
  }
  const Average average = classes_->average.value_or(Average::kMacro);
  const at::Tensor support = is_of_class.to(at::kDouble).sum(0);
  return averaged(at::stack(areas), average, average == Average::kWeighted ? support : at::ones_like(support));
}

}  // namespace cohort::metric
