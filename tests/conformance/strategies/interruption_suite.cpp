// What goes wrong in the middle of a step: nothing may wait for ever, and who is missing is named.
#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr auto kDeadline = 5s;

COHORT_ON_SHAPES(AStepGivenUp, all_shapes());

TEST_P(AStepGivenUp, BeforeItsLastMicroBatchLeavesTheNextStepsAlone) {
  const Net net = small_net();
  const auto backward = backward_of(net, shape());
  const auto by_rank = weights_of(shape(), net, [&](Trainee& trainee) {
    trainee.step(backward, 0);
    trainee.backward(backward, {0, 7, 0}, false);
    trainee.engine().abandon();
    for (uint32_t i = 0; i < net.parameters.size(); ++i) trainee.model().forget_gradient(i);
    trainee.steps(backward, 1, 3);
    require(trainee.engine().steps() == 3, "a step that was given up was counted");
    return trainee.finish();
  });
  expect_equal(net, by_rank);
  if (!subject().given().is_exact) return;
  Reference reference(net, shape());
  for (int step = 0; step < 3; ++step) reference.step(backward, step);
  EXPECT_EQ(reference.difference_to(by_rank[0]), "");
}

TEST_P(AStepGivenUp, AfterItsBackwardMakesWayForANewModel) {
  const Net first = small_net();
  const Net second{{{"a", 11}, {"b", 300}}};
  std::vector<Weights> by_rank(static_cast<size_t>(shape().ranks));
  toy::run_ranks(job_of(shape()), [&](toy::ToyRank& rank) {
    {
      Trainee trainee(rank, first, shape());
      trainee.step(backward_of(first, shape()), 0);
      trainee.backward(backward_of(first, shape()), {0, 1, 0});
      trainee.engine().abandon();
    }
    Trainee trainee(rank, second, shape());
    trainee.steps(backward_of(second, shape()), 0, 3);
    by_rank[static_cast<size_t>(rank.rank)] = trainee.finish();
  });
  expect_equal(second, by_rank);
}

// Begins a step and leaves it when a part of its gradients, in several buckets, is complete.
void fail_in_the_middle(Trainee& trainee) {
  host::StepEngine& engine = trainee.engine();
  engine.begin(true);
  for (const uint32_t parameter : {5u, 4u, 3u}) {
    trainee.model().add_gradient(parameter, Values(small_net().parameters[parameter].numel, 1.0));
    engine.gradient_ready(parameter);
  }
  throw std::runtime_error("given up");
}

TEST_P(AStepGivenUp, ByAllRanksWithoutAShutdownEndsThem) {
  const Net net = small_net();
  const auto texts = failures_of(job_of(shape(), net.bucket_size, kDeadline), [&](toy::ToyRank& rank) {
    Trainee trainee(rank, net, shape());
    trainee.step(backward_of(net, shape()), 0);
    fail_in_the_middle(trainee);
  });
  EXPECT_THAT(texts, Each(HasSubstr("given up")));
}

COHORT_ON_SHAPES(ARank, shapes_of_several_ranks());

// The others have failed, and one of them at least says for whom it waited.
void expect_named(const std::vector<std::string>& texts, int missing) {
  std::string said;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    if (rank == static_cast<size_t>(missing)) continue;
    EXPECT_NE(texts[rank], "") << "rank " << rank << " was told that all is well";
    said += texts[rank] + "\n";
  }
  EXPECT_THAT(said, HasSubstr("rank " + std::to_string(missing)));
}

TEST_P(ARank, ThatFailsInAStepEndsTheOthersAndIsNamed) {
  const Net net = small_net();
  for (const int failing : {0, shape().ranks - 1}) {
    const auto texts = failures_of(job_of(shape(), net.bucket_size, kDeadline), [&](toy::ToyRank& rank) {
      Trainee trainee(rank, net, shape());
      trainee.step(backward_of(net, shape()), 0);
      if (rank.rank == failing) fail_in_the_middle(trainee);
      trainee.steps(backward_of(net, shape()), 1, 4);
      trainee.finish();
    });
    EXPECT_THAT(texts[static_cast<size_t>(failing)], HasSubstr("given up"));
    expect_named(texts, failing);
  }
}

COHORT_ON_SHAPES(ARankOfMany, largest_shape());

TEST_P(ARankOfMany, ThatDoesNotComeIsNamedAtTheDeadline) {
  const Net net = small_net();
  const int missing = shape().ranks / 2;
  std::atomic<int> left{shape().ranks - 1};
  const auto texts = failures_of(job_of(shape(), net.bucket_size, 1500ms), [&](toy::ToyRank& rank) {
    Trainee trainee(rank, net, shape());
    trainee.step(backward_of(net, shape()), 0);
    if (rank.rank == missing) {
      while (left > 0) std::this_thread::sleep_for(1ms);
      throw std::runtime_error("came too late");
    }
    try {
      trainee.steps(backward_of(net, shape()), 1, 4);
      trainee.finish();
    } catch (...) {
      --left;
      throw;
    }
    --left;
  });
  expect_named(texts, missing);
}

}  // namespace
