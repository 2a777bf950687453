// Gradients that are limited: the limit holds for the mean gradient of all ranks, and every rank is told its norm.
#include <algorithm>
#include <cmath>
#include <limits>

#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

// The mean over ranks of the sum over replicas, one element after the other.
Weights mean_gradient(const Net& net, const Shape& shape, const Backward& backward) {
  Weights mean;
  for (const auto& parameter : net.parameters) mean.emplace_back(parameter.requires_grad ? parameter.numel : 0);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const Gradients gradients = backward({rank, 0, 0});
    for (size_t i = 0; i < gradients.size(); ++i) {
      Values& sum = mean[i % mean.size()];
      for (size_t element = 0; element < sum.size(); ++element) sum[element] += gradients[i][element] / shape.ranks;
    }
  }
  return mean;
}

double norm_of(const Weights& gradient) {
  double squares = 0;
  for (const Values& values : gradient) {
    for (const double value : values) squares += value * value;
  }
  return std::sqrt(squares);
}

void require_step(const Weights& before, const Weights& after, const Weights& change) {
  for (size_t parameter = 0; parameter < change.size(); ++parameter) {
    for (size_t i = 0; i < change[parameter].size(); ++i) {
      const double wanted = before[parameter][i] - Net::kLearningRate * change[parameter][i];
      require(std::abs(after[parameter][i] - wanted) <= 1e-5,
              "parameter " + std::to_string(parameter) + " [" + std::to_string(i) + "] is " +
                  std::to_string(after[parameter][i]) + ", not " + std::to_string(wanted));
    }
  }
}

// One step whose gradients are limited, and become `limited`.
void expect_limit(const Shape& shape, const toy::ToyRank::Clip& clip,
                  const std::function<double(double value, double norm)>& limited) {
  const Net net = small_net();
  const auto backward = backward_of(net, shape);
  Weights change = mean_gradient(net, shape, backward);
  const double norm = norm_of(change);
  for (Values& values : change) {
    for (double& value : values) value = limited(value, norm);
  }
  on_ranks(shape, net, [&](Trainee& trainee) {
    const Weights before = trainee.weights();
    trainee.limit(clip);
    trainee.step(backward, 0);
    require(std::abs(trainee.norm() - norm) <= 1e-5 * norm,
            "the norm is " + std::to_string(trainee.norm()) + ", not " + std::to_string(norm));
    require_step(before, trainee.finish(), change);
  });
}

COHORT_ON_SHAPES(LimitedGradients, all_shapes());

TEST_P(LimitedGradients, HaveTheNormOfTheMeanGradient) {
  COHORT_NEEDS_EXACTNESS();
  COHORT_NEEDS_SGD();
  for (const double limit : {0.5, 1e6}) {
    expect_limit(shape(), {COHORT_CLIP_NORM, limit},
                 [limit](double value, double norm) { return value * std::min(1.0, limit / (norm + 1e-6)); });
  }
}

TEST_P(LimitedGradients, AreLimitedElementByElement) {
  COHORT_NEEDS_EXACTNESS();
  COHORT_NEEDS_SGD();
  expect_limit(shape(), {COHORT_CLIP_VALUE, 0.25}, [](double value, double) { return std::clamp(value, -0.25, 0.25); });
}

TEST_P(LimitedGradients, AreOnlyMeasuredWithAnInfiniteLimit) {
  COHORT_NEEDS_EXACTNESS();
  COHORT_NEEDS_SGD();
  expect_limit(shape(), {COHORT_CLIP_NORM, std::numeric_limits<double>::infinity()},
               [](double value, double) { return value; });
}

}  // namespace
