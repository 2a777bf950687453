#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

TEST(Disagreement, OfModelsStopsEveryRankWithATableOfTheDifference) {
  const auto texts = run_ranks_to_failure(ddp_job(2), [](ToyRank& rank) {
    ToyModel model({{"fc1", rank.rank == 0 ? 3u : 4u}, {"fc2", 2}}, 1.0, 1.0);
    rank.runtime.configure(model);
  });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("different models"), HasSubstr("rank 0: parameter fc1 float32 [3]"),
                                HasSubstr("rank 1: parameter fc1 float32 [4]"))));
}

TEST(Disagreement, OfModelsIsSeenInFrozenParametersToo) {
  const auto texts = run_ranks_to_failure(ddp_job(2), [](ToyRank& rank) {
    ToyModel model({{"fc1", 3, COHORT_FLOAT32, rank.rank == 0}}, 1.0, 1.0);
    rank.runtime.configure(model);
  });
  EXPECT_THAT(texts, Each(HasSubstr("(no gradient)")));
}

TEST(Disagreement, OfTheTextsThatAProgramComparesIsShown) {
  const auto texts = run_ranks_to_failure(ddp_job(3), [](ToyRank& rank) {
    rank.runtime.agree("loop", "same", "never shown");
    rank.runtime.agree("loop", rank.rank == 1 ? "k = 2" : "k = 1", "ranks accumulate differently");
  });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("ranks accumulate differently"), HasSubstr("rank 1: k = 2"))));
}

TEST(AStep, WithoutABackwardIsRefusedWithTheMend) {
  const auto texts = run_ranks_to_failure(ddp_job(1), [](ToyRank& rank) {
    ToyModel model({{"w", 1}}, 1.0, 1.0);
    rank.runtime.configure(model).optimizer_step();
  });
  EXPECT_THAT(texts[0], HasSubstr("call begin()"));
}

TEST(AStep, ThatEndsUnderNoSyncIsRefused) {
  const auto texts = run_ranks_to_failure(ddp_job(1), [](ToyRank& rank) {
    ToyModel model({{"w", 1}}, 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.begin(false);
    engine.end_backward();
    engine.optimizer_step();
  });
  EXPECT_THAT(texts[0], HasSubstr("no_sync"));
}

}  // namespace
}  // namespace cohort::toy
