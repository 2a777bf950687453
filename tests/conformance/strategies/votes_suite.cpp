// The end of training is agreed on: what one rank says with a step, all ranks hear with the same step.
#include "suite.hpp"

namespace {

using namespace cohort;
using namespace cohort::conformance;

COHORT_ON_SHAPES(TheVotes, all_shapes());

TEST_P(TheVotes, OfOneRankAreHeardByAllInTheSameStep) {
  const Net net = small_net();
  const auto backward = backward_of(net, shape());
  on_ranks(shape(), net, [&](Trainee& trainee) {
    const bool is_last = trainee.rank() == shape().ranks - 1;
    require(!trainee.step(backward, 0).stop, "nobody had said stop");
    trainee.engine().vote({.stop = is_last, .out_of_data = false});
    const Votes first = trainee.step(backward, 1);
    require(first.stop && !first.out_of_data, "the last rank had said stop alone");
    trainee.engine().vote({.stop = false, .out_of_data = trainee.rank() == 0});
    const Votes second = trainee.step(backward, 2);
    require(!second.stop && second.out_of_data, "rank 0 had no more data, nobody said stop");
    trainee.engine().vote({});
    trainee.engine().exchange_votes();
    require(!trainee.engine().votes().out_of_data, "rank 0 had taken its vote back");
  });
}

TEST_P(TheVotes, EndAnEpochOfUnevenDataAfterTheSameStepOnAllRanks) {
  const Net net = small_net();
  const auto backward = backward_of(net, shape());
  const auto by_rank = weights_of(shape(), net, [&](Trainee& trainee) {
    // The last rank has least: three batches. The number of batches depends on the epoch.
    for (int epoch = 0; epoch < 2; ++epoch) {
      const int batches = 3 + epoch + 2 * (shape().ranks - 1 - trainee.rank());
      int step = 0;
      for (bool is_over = false; !is_over; ++step) {
        trainee.engine().vote({.stop = false, .out_of_data = step + 1 == batches});
        is_over = trainee.step(backward, step).out_of_data;
      }
      require(step == 3 + epoch, "the epoch ended after " + std::to_string(step) + " steps");
    }
    return trainee.finish();
  });
  expect_equal(net, by_rank);
}

}  // namespace
