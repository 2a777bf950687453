// The metrics that come with cohort; names, definitions and defaults are those of torchmetrics.
//
//   namespace metric = cohort::metric;
//   metric::F1Score f1{metric::Multiclass{.num_classes = 10, .average = metric::Average::kMacro}};
//
// Constructors throw UserError for options that cannot be, update for tensors that do not fit.
#pragma once

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include <cohort/metric.hpp>

namespace cohort::metric {

/// How the scores of classes become one: from the counts of all classes, as the mean over the classes that occur, as
/// the mean weighted by the samples of each class, or not at all, which gives one score for each class.
enum class Average { kMicro, kMacro, kWeighted, kNone };

/// Targets are labels from 0, of any shape [N, ...]; predictions are labels of the same shape, or scores of the classes
/// as [N, num_classes, ...].
struct Multiclass {
  int64_t num_classes = 0;
  std::optional<Average> average{};  ///< without one it is kMicro; of AUROC kMacro
};

/// Targets are 0 or 1, of any shape; predictions have the same shape. They are 0 or 1, too, or numbers with a fraction:
/// probabilities, or logits if one of the batch is outside of [0, 1]. Above the threshold a probability counts as 1.
struct Binary {
  double threshold = 0.5;
};

/// A score that is a fraction of counts.
class ClassScore : public Metric {
 public:
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  at::Tensor compute() const override;

 protected:
  /// True and false positives, false negatives, by class. Binary: of class 1, and true negatives.
  struct Counts {
    at::Tensor tp, fp, fn, tn;
  };
  struct Fraction {
    at::Tensor numerator, denominator;
  };

  explicit ClassScore(Multiclass classes, int64_t top_k = 1);
  explicit ClassScore(Binary binary);
  virtual Fraction fraction(const Counts& counts) const = 0;

 private:
  std::optional<Multiclass> classes_;  // nothing: binary
  int64_t top_k_ = 1;
  Binary binary_;
};

/// Multiclass: the part of the samples whose class is predicted, or is one of the `top_k` with the highest scores.
class Accuracy final : public ClassScore {
 public:
  explicit Accuracy(Multiclass classes, int64_t top_k = 1) : ClassScore(classes, top_k) {}
  explicit Accuracy(Binary binary) : ClassScore(binary) {}

 private:
  Fraction fraction(const Counts& counts) const override;
};

class Precision final : public ClassScore {
 public:
  explicit Precision(Multiclass classes) : ClassScore(classes) {}
  explicit Precision(Binary binary) : ClassScore(binary) {}

 private:
  Fraction fraction(const Counts& counts) const override;
};

class Recall final : public ClassScore {
 public:
  explicit Recall(Multiclass classes) : ClassScore(classes) {}
  explicit Recall(Binary binary) : ClassScore(binary) {}

 private:
  Fraction fraction(const Counts& counts) const override;
};

class F1Score final : public ClassScore {
 public:
  explicit F1Score(Multiclass classes) : ClassScore(classes) {}
  explicit F1Score(Binary binary) : ClassScore(binary) {}

 private:
  Fraction fraction(const Counts& counts) const override;
};

/// Counts of samples, a row for each class of the targets and a column for each predicted class.
class ConfusionMatrix final : public Metric {
 public:
  explicit ConfusionMatrix(Multiclass classes);
  explicit ConfusionMatrix(Binary binary);
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  at::Tensor compute() const override;

 private:
  std::optional<Multiclass> classes_;  // nothing: binary
  Binary binary_;
};

/// The area under the ROC curve, exact: it keeps all scores. Multiclass: of each class against the rest. A class
/// without samples, or that all samples have, counts as 0.
class AUROC final : public Metric {
 public:
  /// Throws UserError for Average::kMicro.
  explicit AUROC(Multiclass classes);
  explicit AUROC(Binary binary);
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  at::Tensor compute() const override;

 private:
  std::optional<Multiclass> classes_;  // nothing: binary
};

/// The mean over all elements; predictions and targets have the same shape.
class MeanSquaredError final : public Metric {
 public:
  MeanSquaredError();
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  at::Tensor compute() const override;
};

class MeanAbsoluteError final : public Metric {
 public:
  MeanAbsoluteError();
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  at::Tensor compute() const override;
};

/// The coefficient of determination; of [N, outputs] the mean over the outputs.
class R2Score final : public Metric {
 public:
  R2Score();
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  /// Throws UserError for fewer than two samples.
  at::Tensor compute() const override;
};

/// exp of the mean cross entropy of tokens: targets are tokens [...], predictions logits [..., vocabulary]. Targets
/// equal to `ignore_index` do not count.
class Perplexity final : public Metric {
 public:
  explicit Perplexity(std::optional<int64_t> ignore_index = std::nullopt);
  void update(const at::Tensor& predictions, const at::Tensor& targets) override;
  at::Tensor compute() const override;

 private:
  std::optional<int64_t> ignore_index_;
};

}  // namespace cohort::metric
