// A layer that only looks at gradients, over one that drops them: it changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using Values = std::vector<double>;

struct Trained {
  Values weights;
  uint64_t bytes_sent;
  double seen;  // the gradient that the looking layer has met; -1: none

  bool operator==(const Trained&) const = default;
};

std::vector<Trained> trained(std::vector<Spec> layers, int ranks, int steps) {
  std::vector<Trained> results(static_cast<size_t>(ranks));
  ToyJob job = ddp_job(ranks);
  job.layers = std::move(layers);
  run_ranks(job, [&](ToyRank& rank) {
    ToyModel model({{"a", 3}, {"b", 2}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    const double own = rank.rank + 1;
    for (int step = 0; step < steps; ++step)
      rank.step(engine, model, std::vector<Values>{Values(3, own), Values(2, own)});
    const auto metrics = rank.runtime.strategy_metrics();
    const auto seen = metrics.find("gradient");
    results[static_cast<size_t>(rank.rank)] = {model.weights(0), rank.runtime.bytes_sent(),
                                               seen == metrics.end() ? -1 : seen->second};
    rank.runtime.release_model(model);
  });
  return results;
}

const Spec kDrops = Spec("services").set("does", "drop");

class ALookingLayer : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ALookingLayer, ::testing::Values(1, 2, 3));

TEST_P(ALookingLayer, ChangesNothingOverADrop) {
  const auto alone = trained({kDrops}, GetParam(), 3);
  const auto looked_at = trained({kDrops, Spec("looks")}, GetParam(), 3);
  for (size_t rank = 0; rank < alone.size(); ++rank) {
    const double own = static_cast<double>(rank) + 1;
    EXPECT_EQ(alone[rank].weights, Values(3, -3 * own)) << "each rank trains for itself";
    EXPECT_EQ(alone[rank].bytes_sent, 0u);
    EXPECT_EQ(looked_at[rank].weights, alone[rank].weights);
    EXPECT_EQ(looked_at[rank].bytes_sent, alone[rank].bytes_sent);
    EXPECT_EQ(alone[rank].seen, -1);
    EXPECT_EQ(looked_at[rank].seen, own) << "its own rank's gradient";
  }
}

TEST_P(ALookingLayer, SeesNoGradientsWithoutWantingThem) {
  const auto alone = trained({kDrops}, GetParam(), 3);
  EXPECT_EQ(trained({kDrops, Spec("looks").set("wants", "false")}, GetParam(), 3), alone);
}

TEST_P(ALookingLayer, SeesTheMeanOverAnAverage) {
  const double mean = (GetParam() + 1) / 2.0;
  for (const Trained& rank : trained({Spec("looks")}, GetParam(), 3)) {
    EXPECT_EQ(rank.weights, Values(3, -3 * mean));
    EXPECT_EQ(rank.seen, mean);
  }
}

// Below the drop it is not called, as if nobody had gradients.
TEST_P(ALookingLayer, IsNotCalledUnderADrop) {
  const auto alone = trained({kDrops}, GetParam(), 3);
  EXPECT_EQ(trained({Spec("looks"), kDrops}, GetParam(), 3), alone);
}

}  // namespace
}  // namespace cohort::toy
