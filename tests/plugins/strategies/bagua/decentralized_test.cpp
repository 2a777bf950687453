// decentralized: against a simulator, and what must hold whatever the numbers are.
#include <cmath>

#include "job.hpp"

namespace {

using namespace cohort::test;
using namespace cohort;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// What all members' weights become in a communication.
using Average = std::function<ByRank(const ByRank& weights, int round)>;

ByRank with_all(const ByRank& weights, int) {
  return ByRank(weights.size(), mean_of(weights));
}

/// The pairs of the definition, with its arithmetic.
int peer_of(int r, int n, int s) {
  const auto modulo = [](int a, int b) { return ((a % b) + b) % b; };
  return r < n / 2 ? modulo(s + r, (n + 1) / 2) + n / 2 : modulo(r - n / 2 - s, n / 2);
}

ByRank with_one(const ByRank& weights, int round) {
  const int n = static_cast<int>(weights.size());
  ByRank averages;
  for (int rank = 0; rank < n; ++rank) {
    const int peer = peer_of(rank, n, round);
    EXPECT_EQ(peer_of(peer, n, round), rank);
    averages.push_back(mean_of({weights[static_cast<size_t>(rank)], weights[static_cast<size_t>(peer)]}));
  }
  return averages;
}

/// Of two nodes with two ranks each.
ByRank of_two_nodes(const ByRank& weights, int) {
  return ByRank(4, divided(sum_of({sum_of({weights[0], weights[1]}), sum_of({weights[2], weights[3]})}), 4.0f));
}

/// First the average, then the step with the gradient, which was taken before.
void expect_simulated(const Training& training, const Average& average, int interval = 1) {
  const auto got = trained(training);
  const auto ranks = static_cast<size_t>(training.ranks);
  ByRank weights(ranks, first_weights(training));
  std::vector<Sgd> optimizers(ranks, Sgd(training));
  for (int step = 0; step < training.steps; ++step) {
    if (step % interval == 0) weights = average(weights, step / interval);
    for (size_t rank = 0; rank < ranks; ++rank) {
      optimizers[rank].step(weights[rank], gradients(training, static_cast<int>(rank), step));
      const Flat& own = got[static_cast<size_t>(step)][rank];
      ASSERT_EQ(difference(own, weights[rank]), "") << "step " << step << ", rank " << rank;
    }
  }
  for (const Flat& own : got.back()) EXPECT_EQ(difference(own, mean_of(weights)), "") << "after the end";
}

class Decentralized : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Decentralized, ::testing::Values(2, 3, 4));

TEST_P(Decentralized, AveragesWithAllThenSteps) {
  expect_simulated({.algorithm = "decentralized", .ranks = GetParam(), .steps = 6, .momentum = 0.5}, with_all);
}

TEST_P(Decentralized, StepsAloneBetweenCommunications) {
  expect_simulated({.algorithm = "decentralized,communication_interval=3", .ranks = GetParam(), .steps = 8}, with_all,
                   3);
}

TEST_P(Decentralized, KeepsTheMeanAndBringsRanksTogetherWhenNothingIsLearned) {
  for (const char* mode : {"all", "shift_one"}) {
    if (GetParam() % 2 == 1 && std::string(mode) == "shift_one") continue;
    const auto algorithm = std::string("decentralized,peer_selection_mode=") + mode;
    const auto weights = trained({.algorithm = algorithm, .ranks = GetParam(), .steps = 8, .zero_from = 4});
    const Flat before = mean_of(weights[3]), after = mean_of(weights[7]);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_NEAR(before[i], after[i], 1e-6);
      for (const Flat& own : weights[7]) EXPECT_NEAR(own[i], after[i], 1e-6);
    }
  }
}

class ShiftOne : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ShiftOne, ::testing::Values(2, 4, 6));

TEST_P(ShiftOne, AveragesWithAnotherRankEachTime) {
  const std::string algorithm = "decentralized,peer_selection_mode=shift_one";
  expect_simulated({.algorithm = algorithm, .ranks = GetParam(), .steps = 7, .momentum = 0.5}, with_one);
  expect_simulated({.algorithm = algorithm + ",communication_interval=2", .ranks = GetParam(), .steps = 7}, with_one,
                   2);
}

TEST(DecentralizedOnTwoNodes, AveragesNodes) {
  for (const char* mode : {"all", "shift_one"}) {
    const auto algorithm = std::string("decentralized,peer_selection_mode=") + mode;
    expect_simulated({.algorithm = algorithm, .ranks = 4, .nodes = 2}, of_two_nodes);
  }
  expect_simulated({.algorithm = "decentralized,hierarchical=false", .ranks = 4, .nodes = 2}, with_all);
}

TEST(ShiftOneWithAnOddNumber, IsRefused) {
  const std::string algorithm = "decentralized,peer_selection_mode=shift_one";
  EXPECT_THAT(failure_of({.algorithm = algorithm, .ranks = 3}),
              AllOf(HasSubstr("pairs ranks, and 3 is odd"), HasSubstr("peer_selection_mode=all")));
  EXPECT_THAT(failure_of({.algorithm = algorithm + ",hierarchical=true", .ranks = 2}), HasSubstr("pairs nodes, and 1"));
}

TEST_P(ShiftOne, SendsTheWeightsOnce) {
  const Training training{.algorithm = "decentralized,peer_selection_mode=shift_one", .ranks = GetParam()};
  on_ranks(training, [&](Trainee& trainee) {
    trainee.steps(0, 5);
    if (trainee.runtime().bytes_sent() != 5 * numel_of(training) * sizeof(float)) {
      throw std::runtime_error("another number of bytes");
    }
  });
}

TEST_P(Decentralized, WorksWithAccumulation) {
  Training training{.algorithm = "decentralized", .ranks = GetParam(), .steps = 3, .micro_batches = 2};
  const auto got = trained(training);
  const auto ranks = static_cast<size_t>(training.ranks);
  ByRank weights(ranks, first_weights(training));
  Sgd sgd(training);
  for (int step = 0; step < training.steps; ++step) {
    weights = with_all(weights, step);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const int drawn_for = 2 * step;
      Flat sum = sum_of({gradients(training, static_cast<int>(rank), drawn_for),
                         gradients(training, static_cast<int>(rank), drawn_for + 1)});
      sgd.step(weights[rank], sum);
      ASSERT_EQ(difference(got[static_cast<size_t>(step)][rank], weights[rank]), "") << "step " << step;
    }
  }
}

}  // namespace
