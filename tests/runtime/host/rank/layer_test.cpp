#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

ToyJob counting_job() {
  ToyJob job = ddp_job(2);
  job.layers = {Spec("counting")};
  return job;
}

TEST(AFreeLayer, InCRunsAboveTheStrategyAndReachesTheServices) {
  run_ranks(counting_job(), [](ToyRank& rank) {
    ToyModel model({{"a", 2}, {"b", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    const std::vector<std::vector<double>> gradients{{rank.rank + 1.0, 0.0}, {2.0}};
    rank.step(engine, model, gradients);
    EXPECT_EQ(model.weights(0), (std::vector<double>{-15.0, 0.0}));
    EXPECT_EQ(model.weights(1), std::vector<double>{-20.0});
    EXPECT_EQ(rank.runtime.layers(), (std::vector<std::string>{"base", "ddp", "counting"}));
    rank.runtime.release_model(model);
  });
}

TEST(AFreeLayer, SeesTheSumOfReplicasInOnePieceAlsoWhereNoWireNeedsItSo) {
  ToyJob job = counting_job();
  job.strategy = StrategySpec("dp");
  job.collective = {};
  job.world_size = 1;
  job.replicas = 2;
  run_ranks(job, [](ToyRank& rank) {
    ToyModel model({{"a", 2}, {"b", 1}}, 0.0, 1.0, 0.0, 2);
    host::StepEngine& engine = rank.runtime.configure(model);
    const std::vector<std::vector<double>> gradients{{1.0, 0.0}, {2.0}, {2.0, 0.0}, {}};
    rank.step(engine, model, gradients);
    EXPECT_EQ(model.weights(0), (std::vector<double>{-30.0, 0.0}));
    EXPECT_EQ(model.weights(1), std::vector<double>{-20.0});
    rank.runtime.release_model(model);
  });
}

TEST(AFreeLayer, ThatFailsEndsTheStepWithItsMessageAndTheSlot) {
  const auto texts = run_ranks_to_failure(counting_job(), [](ToyRank& rank) {
    ToyModel model({{"a", 1}, {"b", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    const std::vector<std::vector<double>> gradients{{1.0}, {1.0}};
    for (int step = 0; step < 5; ++step) rank.step(engine, model, gradients);
  });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("step 2, end_step"), HasSubstr("the third step is one too many"))));
}

}  // namespace
}  // namespace cohort::toy
