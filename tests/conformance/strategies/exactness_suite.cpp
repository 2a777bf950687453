// Where an exact strategy leads, and any strategy with one rank: the mean gradient, computed one by one in double.
#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

void expect_reference(const Shape& shape, const Net& net, int steps) {
  const auto backward = backward_of(net, shape);
  Reference reference(net, shape);
  for (int step = 0; step < steps; ++step) reference.step(backward, step);
  for (const Weights& weights : trained(shape, net, backward, steps)) {
    EXPECT_EQ(reference.difference_to(weights), "");
  }
}

COHORT_ON_SHAPES(OneRank, shapes_of_one_rank());

TEST_P(OneRank, MakesThePlainStep) {
  COHORT_NEEDS_SGD();
  Net net = small_net();
  net.momentum = 0.5;
  expect_reference(shape(), net, 5);
}

TEST_P(OneRank, SendsNothing) {
  const Net net = small_net();
  on_ranks(shape(), net, [&](Trainee& trainee) {
    trainee.steps(backward_of(net, shape()), 0, 2);
    trainee.finish();
    require(trainee.runtime().bytes_sent() == 0, std::to_string(trainee.runtime().bytes_sent()) + " bytes were sent");
  });
}

COHORT_ON_SHAPES(AnExactStrategy, all_shapes());

// Long enough for the host to have tried every way to communicate that it knows.
TEST_P(AnExactStrategy, StepsWithTheMeanOfRanksAndTheSumOfReplicas) {
  COHORT_NEEDS_EXACTNESS();
  Net net = small_net();
  net.momentum = 0.5;
  expect_reference(shape(), net, 45);
}

TEST_P(AnExactStrategy, TakesWhatNobodyComputedAsZero) {
  COHORT_NEEDS_EXACTNESS();
  Net net = small_net();
  net.momentum = 0.5;
  const auto backward = backward_of(net, shape(), [](const Turn& turn, uint32_t replica, uint32_t parameter) {
    return (static_cast<uint32_t>(turn.rank + turn.step) + 2 * replica + parameter) % 3 != 0;
  });
  Reference reference(net, shape());
  for (int step = 0; step < 6; ++step) reference.step(backward, step);
  for (const Weights& weights : trained(shape(), net, backward, 6)) EXPECT_EQ(reference.difference_to(weights), "");
}

COHORT_ON_SHAPES(AnExactStrategyOverAWire, shapes_of_several_ranks());

TEST_P(AnExactStrategyOverAWire, SendsWhatARingWould) {
  COHORT_NEEDS_EXACTNESS();
  constexpr uint64_t kNumel = 1000, kSteps = 3, kParameters = 3;
  const Net net{{{"a", kNumel}, {"b", kNumel}, {"c", kNumel}}};
  on_ranks(shape(), net, [&](Trainee& trainee) {
    trainee.steps(backward_of(net, shape()), 0, kSteps);
    const auto n = static_cast<uint64_t>(shape().ranks);
    const uint64_t ring = kSteps * kParameters * kNumel * sizeof(float) * 2 * (n - 1) / n;
    const uint64_t sent = trainee.runtime().bytes_sent();
    require(sent <= ring && sent + kSteps * kParameters > ring,  // each bucket is rounded down
            std::to_string(sent) + " bytes were sent, a ring sends " + std::to_string(ring));
  });
}

}  // namespace
