// A run that is continued from a checkpoint ends as if it had never stopped.
#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

struct Saved {
  toy::ToyState model;
  host::StrategyState strategy;
};

COHORT_ON_SHAPES(ARunFromACheckpoint, all_shapes());

TEST_P(ARunFromACheckpoint, EndsWithTheBitsOfTheUninterruptedRun) {
  COHORT_NEEDS_EQUAL_RESULTS();
  Net net = small_net();
  net.momentum = 0.5;
  const auto backward = backward_of(net, shape());
  constexpr int kSaved = 3, kSteps = 7;
  const auto uninterrupted = trained(shape(), net, backward, kSteps);
  std::vector<Saved> checkpoint(static_cast<size_t>(shape().ranks));
  on_ranks(shape(), net, [&](Trainee& trainee) {
    trainee.steps(backward, 0, kSaved);
    trainee.runtime().pause(COHORT_PAUSE_CHECKPOINT);
    checkpoint[static_cast<size_t>(trainee.rank())] = {trainee.model().state(), trainee.runtime().save_state()};
    trainee.steps(backward, kSaved, kSaved + 2);  // saving ends nothing
  });
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

}  // namespace
