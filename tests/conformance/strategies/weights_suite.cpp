// Which weights ranks have: rank 0's at first, the same at the end, and untouched ones where nothing was computed.
#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

constexpr uint32_t kFrozen = 1, kWide = 2, kOne = 4;  // of small_net

COHORT_ON_SHAPES(RankZerosWeights, all_shapes());

TEST_P(RankZerosWeights, AreThoseOfAllWhenTrainingBegins) {
  const Net net = small_net();
  on_ranks(shape(), net, [&](Trainee& trainee) {
    require_none(difference(net, first_weights(net, 0), trainee.weights()), "rank 0's weights and this rank's");
  });
}

TEST_P(RankZerosWeights, AreGivenToASecondModelToo) {
  toy::run_ranks(job_of(shape()), [&](toy::ToyRank& rank) {
    for (const uint64_t numel : {4u, 90u}) {
      const Net net{{{"w", numel}}};
      Trainee trainee(rank, net, shape());
      require_none(difference(net, first_weights(net, 0), trainee.weights()), "rank 0's weights and this rank's");
      trainee.steps(backward_of(net, shape()), 0, 2);
    }
  });
}

COHORT_ON_SHAPES(TheWeights, all_shapes());

TEST_P(TheWeights, HaveTheSameBitsOnAllRanksAfterTheEnd) {
  const Net net = small_net();
  expect_equal(net, trained(shape(), net, backward_of(net, shape()), 5));
}

TEST_P(TheWeights, HaveTheSameBitsOnAllRanksAfterEveryStep) {
  if (subject().given().ranks_may_differ) GTEST_SKIP() << "ranks may differ between pauses";
  const Net net = small_net();
  for (const int steps : {1, 2, 3}) {
    expect_equal(net, weights_of(shape(), net, [&](Trainee& trainee) {
                   trainee.steps(backward_of(net, shape()), 0, steps);
                   return trainee.weights();
                 }));
  }
}

TEST_P(TheWeights, ChangeInAStepButForFrozenOnes) {
  const Net net = small_net();
  for (const Weights& weights : trained(shape(), net, backward_of(net, shape()), 3)) {
    const Weights first = first_weights(net, 0);
    for (size_t parameter = 0; parameter < net.parameters.size(); ++parameter) {
      EXPECT_EQ(weights[parameter] == first[parameter], parameter == kFrozen) << net.parameters[parameter].name;
    }
  }
}

TEST_P(TheWeights, StayWhatTheyAreWhereNoRankReachesThem) {
  COHORT_NEEDS_UNREACHED_WEIGHTS_AT_REST();
  const Net net = small_net();
  const auto backward = backward_of(
      net, shape(), [](const Turn&, uint32_t, uint32_t parameter) { return parameter != kWide && parameter != kOne; });
  for (const Weights& weights : trained(shape(), net, backward, 3)) {
    EXPECT_EQ(weights[kWide], first_weights(net, 0)[kWide]);
    EXPECT_EQ(weights[kOne], first_weights(net, 0)[kOne]);
  }
}

TEST_P(TheWeights, StayWhatTheyAreInStepsThatReachNothing) {
  COHORT_NEEDS_UNREACHED_WEIGHTS_AT_REST();
  const Net net = small_net();
  const auto backward = backward_of(net, shape(), [](const Turn&, uint32_t, uint32_t) { return false; });
  for (const Weights& weights : trained(shape(), net, backward, 2)) {
    EXPECT_EQ(difference(net, first_weights(net, 0), weights), "");
  }
}

TEST_P(TheWeights, ThatOneRankReachesNowAndThenAreTheSameOnAll) {
  Net net = small_net();
  net.momentum = 0.5;
  const auto backward = backward_of(net, shape(), [&](const Turn& turn, uint32_t, uint32_t parameter) {
    return parameter != kWide || (turn.step % 2 == 1 && turn.rank == turn.step % shape().ranks);
  });
  const auto by_rank = trained(shape(), net, backward, 6);
  expect_equal(net, by_rank);
  EXPECT_NE(by_rank[0][kWide], first_weights(net, 0)[kWide]);
}

COHORT_ON_SHAPES(APause, all_shapes());

TEST_P(APause, ForAnEvaluationOrACheckpointChangesNoWeights) {
  const Net net = small_net();
  on_ranks(shape(), net, [&](Trainee& trainee) {
    for (const int32_t reason : {COHORT_PAUSE_EVALUATE, COHORT_PAUSE_CHECKPOINT}) {
      trainee.steps(backward_of(net, shape()), 0, 2);
      const Weights before = trainee.weights();
      trainee.runtime().pause(reason);
      require_none(difference(net, before, trainee.weights()), "before and after pause");
      require_none(difference(net, before, trainee.weights()), "before pause and after resume");
    }
  });
}

TEST_P(APause, InTheMiddleLeavesNoTraceInTheResult) {
  COHORT_NEEDS_EQUAL_RESULTS();
  Net net = small_net();
  net.momentum = 0.5;
  const auto backward = backward_of(net, shape());
  const auto without = trained(shape(), net, backward, 6);
  const auto with = weights_of(shape(), net, [&](Trainee& trainee) {
    trainee.steps(backward, 0, 2);
    trainee.rest(COHORT_PAUSE_EVALUATE);
    trainee.steps(backward, 2, 3);
    trainee.rest(COHORT_PAUSE_CHECKPOINT);
    trainee.steps(backward, 3, 6);
    return trainee.finish();
  });
  EXPECT_EQ(difference(net, without[0], with[0]), "");
}

TEST_P(APause, AtTheEndMayBeFollowedByMoreTraining) {
  const Net net = small_net();
  expect_equal(net, weights_of(shape(), net, [&](Trainee& trainee) {
                 trainee.steps(backward_of(net, shape()), 0, 2);
                 trainee.finish();
                 trainee.steps(backward_of(net, shape()), 2, 5);
                 return trainee.finish();
               }));
}

}  // namespace
