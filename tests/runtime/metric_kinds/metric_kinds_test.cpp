// Metrics beside loops over samples.
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include <cohort/host/error.hpp>
#include <cohort/metric_kinds.hpp>

#include "error_text.hpp"

namespace cohort::metric {
namespace {

using at::Tensor;
using ::testing::HasSubstr;

constexpr int64_t kClasses = 5, kSamples = 60;
constexpr double kTolerance = 1e-12;

/// Samples of classes, of which 3 occurs in neither targets nor labels and 4 in the predictions only.
struct ClassData {
  Tensor scores, labels, targets;

  ClassData() {
    torch::manual_seed(3);
    scores = torch::randn({kSamples, kClasses}).mul(3);
    scores.select(1, 3).fill_(-100);
    targets = torch::randint(0, 3, {kSamples}, torch::kLong);
    labels = scores.argmax(1);
  }
};

/// Calls for slices of several lengths, one of them empty.
void in_batches(int64_t samples, const std::function<void(int64_t begin, int64_t end)>& call) {
  int64_t begin = 0;
  for (const int64_t size : {7, 0, 1, 20}) {
    call(begin, begin + size);
    begin += size;
  }
  call(begin, samples);
}

double value_of(Metric& metric, const Tensor& predictions, const Tensor& targets) {
  in_batches(targets.size(0), [&](auto begin, auto end) {
    metric.update(predictions.slice(0, begin, end), targets.slice(0, begin, end));
  });
  return metric.compute().item<double>();
}

struct Counted {
  std::vector<double> tp, fp, fn;
  explicit Counted(size_t classes) : tp(classes), fp(classes), fn(classes) {}
};

Counted counted(const Tensor& labels, const Tensor& targets, size_t classes) {
  Counted counts(classes);
  for (int64_t i = 0; i < targets.numel(); ++i) {
    const auto label = static_cast<size_t>(labels[i].item<int64_t>());
    const auto target = static_cast<size_t>(targets[i].item<int64_t>());
    if (label == target) {
      ++counts.tp[target];
    } else {
      ++counts.fp[label];
      ++counts.fn[target];
    }
  }
  return counts;
}

using Score = std::function<double(double tp, double fp, double fn)>;

double ratio(double over, double under) {
  return under == 0 ? 0 : over / under;
}

const Score kAccuracy = [](double tp, double, double fn) { return ratio(tp, tp + fn); };
const Score kPrecision = [](double tp, double fp, double) { return ratio(tp, tp + fp); };
const Score kF1 = [](double tp, double fp, double fn) { return ratio(2 * tp, 2 * tp + fp + fn); };

double expected(const Counted& counts, Average average, const Score& score) {
  double tp = 0, fp = 0, fn = 0, sum = 0, weights = 0;
  for (size_t i = 0; i < counts.tp.size(); ++i) {
    tp += counts.tp[i];
    fp += counts.fp[i];
    fn += counts.fn[i];
    const double support = counts.tp[i] + counts.fn[i];
    const double weight = average == Average::kWeighted ? support : support + counts.fp[i] > 0 ? 1 : 0;
    sum += weight * score(counts.tp[i], counts.fp[i], counts.fn[i]);
    weights += weight;
  }
  return average == Average::kMicro ? score(tp, fp, fn) : sum / weights;
}

template <class Kind>
void expect_as_counted(const ClassData& data, const Score& score) {
  const Counted counts = counted(data.labels, data.targets, kClasses);
  for (const Average average : {Average::kMicro, Average::kMacro, Average::kWeighted}) {
    Kind of_scores(Multiclass{.num_classes = kClasses, .average = average});
    EXPECT_NEAR(value_of(of_scores, data.scores, data.targets), expected(counts, average, score), kTolerance);
    Kind of_labels(Multiclass{.num_classes = kClasses, .average = average});
    EXPECT_NEAR(value_of(of_labels, data.labels, data.targets), expected(counts, average, score), kTolerance);
  }
  Kind each(Multiclass{.num_classes = kClasses, .average = Average::kNone});
  each.update(data.scores, data.targets);
  for (size_t i = 0; i < kClasses; ++i) {
    EXPECT_NEAR(each.compute()[static_cast<int64_t>(i)].template item<double>(),
                score(counts.tp[i], counts.fp[i], counts.fn[i]), kTolerance);
  }
}

TEST(ClassScore, OfSeveralClassesEqualsCountsInALoop) {
  const ClassData data;
  expect_as_counted<Accuracy>(data, kAccuracy);
  expect_as_counted<Recall>(data, kAccuracy);  // the same within a class
  expect_as_counted<Precision>(data, kPrecision);
  expect_as_counted<F1Score>(data, kF1);
}

TEST(ClassScore, WithoutAnAverageIsThatOfAllCounts) {
  const ClassData data;
  F1Score score(Multiclass{.num_classes = kClasses});
  EXPECT_NEAR(value_of(score, data.scores, data.targets),
              data.labels.eq(data.targets).to(at::kDouble).mean().item<double>(), kTolerance);
}

TEST(ClassScore, TopKCountsTargetsAmongTheHighestScores) {
  const ClassData data;
  int hits = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const Tensor row = data.scores[i];
    hits += row.gt(row[data.targets[i]]).sum().item<int64_t>() < 2 ? 1 : 0;
  }
  Accuracy accuracy(Multiclass{.num_classes = kClasses}, /*top_k=*/2);
  EXPECT_NEAR(value_of(accuracy, data.scores, data.targets), hits / static_cast<double>(kSamples), kTolerance);
}

TEST(ClassScore, TakesScoresOfSeveralPositionsInASample) {
  const ClassData data;
  const Tensor scores = data.scores.view({6, 10, kClasses}).transpose(1, 2), targets = data.targets.view({6, 10});
  for (const int64_t top_k : {1, 2}) {
    Accuracy flat(Multiclass{.num_classes = kClasses}, top_k), positions(Multiclass{.num_classes = kClasses}, top_k);
    flat.update(data.scores, data.targets);
    positions.update(scores, targets);
    EXPECT_EQ(positions.compute().item<double>(), flat.compute().item<double>());
  }
}

/// Probabilities and logits of the same binary labels, with a probability at the threshold.
struct BinaryData {
  Tensor probabilities, logits, targets;

  BinaryData() {
    torch::manual_seed(4);
    probabilities = torch::rand({kSamples}).mul(10).round().div(10);  // with equal ones
    logits = torch::randn({kSamples});
    logits = logits.sign() + 2 * logits;  // none looks like a probability
    targets = torch::randint(0, 2, {kSamples}, torch::kLong);
  }
};

template <class Kind>
void expect_binary(const BinaryData& data,
                   const std::function<double(double tp, double fp, double fn, double tn)>& score) {
  constexpr double kThreshold = 0.3;
  const auto counts = [&](const Tensor& probabilities) {
    double tp = 0, fp = 0, fn = 0, tn = 0;
    for (int64_t i = 0; i < kSamples; ++i) {
      const bool predicted = probabilities[i].item<float>() > static_cast<float>(kThreshold);
      const bool target = data.targets[i].item<int64_t>() == 1;
      ++(predicted ? target ? tp : fp : target ? fn : tn);
    }
    return score(tp, fp, fn, tn);
  };
  Kind of_probabilities(Binary{.threshold = kThreshold}), of_logits(Binary{.threshold = kThreshold});
  EXPECT_NEAR(value_of(of_probabilities, data.probabilities, data.targets), counts(data.probabilities), kTolerance);
  EXPECT_NEAR(value_of(of_logits, data.logits, data.targets), counts(1 / (1 + (-data.logits).exp())), kTolerance);
}

TEST(ClassScore, OfTwoClassesEqualsCountsInALoop) {
  const BinaryData data;
  expect_binary<Accuracy>(data,
                          [](double tp, double fp, double fn, double tn) { return (tp + tn) / (tp + fp + fn + tn); });
  expect_binary<Precision>(data, [](double tp, double fp, double, double) { return ratio(tp, tp + fp); });
  expect_binary<Recall>(data, [](double tp, double, double fn, double) { return ratio(tp, tp + fn); });
  expect_binary<F1Score>(data, [](double tp, double fp, double fn, double) { return ratio(2 * tp, 2 * tp + fp + fn); });
}

TEST(ConfusionMatrix, HasARowForEachTarget) {
  const ClassData data;
  Tensor wanted = torch::zeros({kClasses, kClasses}, torch::kLong);
  for (int64_t i = 0; i < kSamples; ++i) wanted[data.targets[i]][data.labels[i]].add_(1);
  ConfusionMatrix matrix(Multiclass{.num_classes = kClasses});
  in_batches(kSamples, [&](auto begin, auto end) {
    matrix.update(data.scores.slice(0, begin, end), data.targets.slice(0, begin, end));
  });
  EXPECT_TRUE(torch::equal(matrix.compute(), wanted));
  ConfusionMatrix binary{Binary{}};
  binary.update(torch::tensor({0.9, 0.2, 0.7}), torch::tensor({1, 0, 0}));
  EXPECT_TRUE(torch::equal(binary.compute(), torch::tensor({{1, 1}, {0, 1}})));
}

/// The part of pairs of a positive and a negative sample in which the positive one has the higher score.
double area(const Tensor& scores, const Tensor& is_positive) {
  const auto score = scores.accessor<float, 1>();
  const auto is_one = is_positive.accessor<bool, 1>();
  double wins = 0, pairs = 0;
  for (int64_t i = 0; i < scores.numel(); ++i) {
    for (int64_t j = 0; j < scores.numel(); ++j) {
      if (!is_one[i] || is_one[j]) continue;
      const float positive = score[i], negative = score[j];
      wins += positive > negative ? 1 : positive == negative ? 0.5 : 0;
      ++pairs;
    }
  }
  return ratio(wins, pairs);
}

TEST(AUROC, OfTwoClassesIsThePartOfPairsInOrder) {
  const BinaryData data;
  AUROC of_probabilities{Binary{}}, of_logits{Binary{}};
  EXPECT_NEAR(value_of(of_probabilities, data.probabilities, data.targets),
              area(data.probabilities, data.targets.eq(1)), kTolerance);
  EXPECT_NEAR(value_of(of_logits, data.logits, data.targets), area(data.logits, data.targets.eq(1)), kTolerance);
}

TEST(AUROC, OfSeveralClassesIsTheMeanOfEachAgainstTheRest) {
  const ClassData data;
  double mean = 0, weighted = 0;
  AUROC each(Multiclass{.num_classes = kClasses, .average = Average::kNone});
  each.update(data.scores, data.targets);
  for (int64_t label = 0; label < kClasses; ++label) {
    const Tensor is_positive = data.targets.eq(label);
    const double own = area(data.scores.softmax(1).select(1, label), is_positive);
    EXPECT_NEAR(each.compute()[label].item<double>(), own, kTolerance);
    mean += own / kClasses;
    weighted += own * is_positive.sum().item<double>() / kSamples;
  }
  AUROC macro(Multiclass{.num_classes = kClasses}),
      by_support(Multiclass{.num_classes = kClasses, .average = Average::kWeighted});
  EXPECT_NEAR(value_of(macro, data.scores, data.targets), mean, kTolerance);
  EXPECT_NEAR(value_of(by_support, data.scores, data.targets), weighted, kTolerance);
}

TEST(Regression, EqualsSumsInALoop) {
  torch::manual_seed(5);
  const Tensor targets = torch::randn({kSamples, 2}), predictions = targets + 0.3 * torch::randn({kSamples, 2});
  double squares = 0, absolutes = 0, r2 = 0;
  for (int64_t output = 0; output < 2; ++output) {
    double mean = 0, residuals = 0, total = 0;
    for (int64_t i = 0; i < kSamples; ++i) mean += targets[i][output].item<double>() / kSamples;
    for (int64_t i = 0; i < kSamples; ++i) {
      const double target = targets[i][output].item<double>(), error = predictions[i][output].item<double>() - target;
      residuals += error * error;
      absolutes += std::abs(error);
      total += (target - mean) * (target - mean);
    }
    squares += residuals;
    r2 += (1 - residuals / total) / 2;
  }
  MeanSquaredError mse;
  MeanAbsoluteError mae;
  R2Score score;
  EXPECT_NEAR(value_of(mse, predictions, targets), squares / (2 * kSamples), kTolerance);
  EXPECT_NEAR(value_of(mae, predictions, targets), absolutes / (2 * kSamples), kTolerance);
  EXPECT_NEAR(value_of(score, predictions, targets), r2, 1e-9);
}

TEST(Regression, R2OfConstantTargetsIsZeroUnlessAllIsExact) {
  R2Score exact, wrong;
  EXPECT_EQ(value_of(exact, torch::ones({kSamples}), torch::ones({kSamples})), 1);
  EXPECT_EQ(value_of(wrong, torch::zeros({kSamples}), torch::ones({kSamples})), 0);
  R2Score one;
  one.update(torch::ones({1}), torch::ones({1}));
  EXPECT_THAT(error_text<UserError>([&] { one.compute(); }), HasSubstr("two samples"));
}

TEST(Perplexity, IsTheExponentOfTheMeanLossOfTokensThatCount) {
  torch::manual_seed(6);
  const Tensor logits = torch::randn({12, 5, 7});
  Tensor tokens = torch::randint(0, 7, {12, 5}, torch::kLong);
  tokens.select(1, 4).fill_(-1);
  double sum = 0;
  for (int64_t i = 0; i < 12; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      double total = 0;
      for (int64_t word = 0; word < 7; ++word) total += std::exp(logits[i][j][word].item<double>());
      sum -= std::log(std::exp(logits[i][j][tokens[i][j]].item<double>()) / total);
    }
  }
  Perplexity perplexity(-1);
  for (int64_t i = 0; i < 12; i += 4) perplexity.update(logits.slice(0, i, i + 4), tokens.slice(0, i, i + 4));
  EXPECT_NEAR(perplexity.compute().item<double>(), std::exp(sum / 48), 1e-6);
  Perplexity all;
  EXPECT_THAT(error_text<UserError>([&] { all.update(logits, tokens); }), HasSubstr("label -1"));
}

TEST(MetricKinds, RefuseInputThatDoesNotFitWithItsShapes) {
  const auto refusal = [](Metric&& metric, const Tensor& predictions, const Tensor& targets) {
    return error_text<UserError>([&] { metric.update(predictions, targets); });
  };
  const Multiclass three{.num_classes = 3};
  const Tensor labels = torch::tensor({0, 1, 2, 1});
  EXPECT_EQ(
      refusal(Accuracy(three), torch::zeros({4, 4}), labels),
      "cohort::metric::Accuracy: update was given predictions of shape [4, 4] and targets of shape [4]; give scores "
      "[N, 3, ...], a row for each target, and labels [N, ...]");
  EXPECT_THAT(refusal(AUROC(three), torch::zeros({5, 3}), labels), HasSubstr("shape [5, 3]"));
  EXPECT_EQ(refusal(F1Score(three), torch::zeros({4, 3}), labels + 1),
            "cohort::metric::F1Score: update was given targets with the label 3; labels go from 0 to 2");
  EXPECT_THAT(refusal(Recall(three), labels - 1, labels), HasSubstr("predictions with the label -1"));
  EXPECT_THAT(refusal(Recall(three), labels.to(torch::kFloat), labels), HasSubstr("predictions of type Float"));
  EXPECT_THAT(refusal(Accuracy(three, 2), labels, labels), HasSubstr("give scores"));
  EXPECT_THAT(refusal(Precision(Binary{}), torch::zeros({4, 1}), torch::zeros({4}, torch::kLong)),
              HasSubstr("squeeze"));
  EXPECT_THAT(refusal(ConfusionMatrix(Binary{}), torch::zeros({4}), labels), HasSubstr("the label 2"));
  EXPECT_THAT(refusal(MeanSquaredError(), torch::zeros({4, 1}), torch::zeros({4})), HasSubstr("[4, 1]"));
  EXPECT_THAT(refusal(R2Score(), torch::zeros({4, 1, 1}), torch::zeros({4, 1, 1})), HasSubstr("[N, outputs]"));
  EXPECT_THAT(refusal(Perplexity(), torch::zeros({4, 7}), torch::zeros({4, 2}, torch::kLong)), HasSubstr("vocabulary"));
}

TEST(MetricKinds, OptionsThatCannotBeAreRefused) {
  EXPECT_THAT(error_text<UserError>([] { Accuracy(Multiclass{}); }), HasSubstr("num_classes is 0"));
  EXPECT_THAT(error_text<UserError>([] { Accuracy(Multiclass{.num_classes = 3}, 4); }), HasSubstr("from 1 to"));
  EXPECT_THAT(error_text<UserError>([] { AUROC(Multiclass{.num_classes = 3, .average = Average::kMicro}); }),
              HasSubstr("kMicro"));
  EXPECT_THAT(error_text<UserError>([] { ConfusionMatrix(Multiclass{.num_classes = 3, .average = Average::kMacro}); }),
              HasSubstr("average"));
}

}  // namespace
}  // namespace cohort::metric
