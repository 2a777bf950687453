// A run that is continued from a checkpoint ends as if it had never stopped.
#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

struct Saved {
  toy::ToyState model;
  host::StrategyState strategy;
};

/// Returns each rank's checkpoint after this many steps. The ranks then train on.
std::vector<Saved> saved_after(const Shape& shape, const Net& net, int steps) {
  std::vector<Saved> checkpoint(static_cast<size_t>(shape.ranks));
  const auto backward = backward_of(net, shape);
  on_ranks(shape, net, [&](Trainee& trainee) {
    trainee.steps(backward, 0, steps);
    trainee.runtime().pause(COHORT_PAUSE_CHECKPOINT);
    checkpoint[static_cast<size_t>(trainee.rank())] = {trainee.model().state(), trainee.runtime().save_state()};
    trainee.steps(backward, steps, steps + 2);  // saving ends nothing
  });
  return checkpoint;
}

/// Returns the values of a rank's state that its layers call shared, or the other ones.
host::StrategyState part_of(const host::StrategyState& state, bool is_shared) {
  host::StrategyState part = state;
  std::erase_if(part.values, [&](const auto& item) { return item.second.is_shared != is_shared; });
  std::erase_if(part.buckets, [&](const auto& item) { return item.second.is_shared != is_shared; });
  return part;
}

void add(std::vector<Values>& sum, const std::vector<Values>& other) {
  for (size_t parameter = 0; parameter < sum.size(); ++parameter) {
    for (size_t i = 0; i < sum[parameter].size(); ++i) sum[parameter][i] += other[parameter][i];
  }
}

/// Returns the means over the ranks, which another number of ranks begins with.
toy::ToyState mean_of(const std::vector<Saved>& checkpoint) {
  toy::ToyState mean = checkpoint[0].model;
  for (auto what : {&toy::ToyState::weights, &toy::ToyState::momenta, &toy::ToyState::squares}) {
    for (size_t rank = 1; rank < checkpoint.size(); ++rank) add(mean.*what, checkpoint[rank].model.*what);
    for (Values& values : mean.*what) {
      for (double& value : values) value /= static_cast<double>(checkpoint.size());
    }
  }
  return mean;
}

COHORT_ON_SHAPES(ARunFromACheckpoint, all_shapes());

TEST_P(ARunFromACheckpoint, EndsWithTheBitsOfTheUninterruptedRun) {
  COHORT_NEEDS_EQUAL_RESULTS();
  Net net = small_net();
  net.momentum = 0.5;
  const auto backward = backward_of(net, shape());
  constexpr int kSaved = 3, kSteps = 7;
  const auto uninterrupted = trained(shape(), net, backward, kSteps);
  const std::vector<Saved> checkpoint = saved_after(shape(), net, kSaved);
  const auto continued = weights_of(shape(), net, [&](Trainee& trainee) {
    const Saved& own = checkpoint[static_cast<size_t>(trainee.rank())];
    trainee.model().set_state(own.model);
    trainee.runtime().load_state(own.strategy, kSaved);
    require(trainee.engine().steps() == kSaved, "the run does not go on at the step of the checkpoint");
    trainee.steps(backward, kSaved, kSteps);
    return trainee.finish();
  });
  EXPECT_EQ(difference(net, uninterrupted[0], continued[0]), "");
  expect_equal(net, continued);
}

TEST_P(ARunFromACheckpoint, FindsTheSameOnAllRanksInWhatIsShared) {
  const std::vector<Saved> checkpoint = saved_after(shape(), small_net(), 3);
  const host::StrategyState first = part_of(checkpoint[0].strategy, /*is_shared=*/true);
  for (const Saved& saved : checkpoint) {
    const host::StrategyState shared = part_of(saved.strategy, /*is_shared=*/true);
    EXPECT_EQ(shared.values, first.values);
    EXPECT_EQ(shared.buckets, first.buckets);
  }
}

TEST_P(ARunFromACheckpoint, ResumesOnOtherNumbersOfRanks) {
  const Net net = small_net();
  constexpr int kSaved = 3, kSteps = 7;
  const std::vector<Saved> checkpoint = saved_after(shape(), net, kSaved);
  const host::StrategyState own = part_of(checkpoint[0].strategy, /*is_shared=*/false);
  if (!own.values.empty() || !own.buckets.empty()) GTEST_SKIP() << "layers keep values of each rank";
  for (const Shape& other : all_shapes()) {
    if (other.ranks == shape().ranks || other.replicas != shape().replicas) continue;
    expect_equal(net, weights_of(other, net, [&](Trainee& trainee) {
                   trainee.model().set_state(mean_of(checkpoint));
                   trainee.runtime().load_state(checkpoint[0].strategy, kSaved);
                   trainee.steps(backward_of(net, other), kSaved, kSteps);
                   return trainee.finish();
                 }));
  }
}

}  // namespace
