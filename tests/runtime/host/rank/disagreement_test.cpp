#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/error.hpp>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

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

TEST(AStep, WithASecondBackwardAfterTheAverageIsRefused) {
  const auto texts = run_ranks_to_failure(ddp_job(1), [](ToyRank& rank) {
    ToyModel model({{"w", 1}}, 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.begin(true);
    engine.end_backward();
    engine.begin(true);
  });
  EXPECT_THAT(texts[0], HasSubstr("call step() first"));
}

TEST(ASecondModel, IsRefusedWhileTheFirstIsThere) {
  const auto texts = run_ranks_to_failure(ddp_job(2), [](ToyRank& rank) {
    ToyModel first({{"w", 1}}, 1.0, 1.0), second({{"w", 1}}, 1.0, 1.0);
    rank.runtime.configure(first);
    rank.runtime.release_model(second);  // not the configured one: nothing happens
    rank.runtime.configure(second);
  });
  EXPECT_THAT(texts, Each(HasSubstr("one model at a time")));
}

TEST(AModel, CanFollowOneThatWasRefused) {
  run_ranks(ddp_job(2), [](ToyRank& rank) {
    ToyModel refused({{"w", rank.rank == 0 ? 1u : 2u}}, 1.0, 1.0), accepted({{"w", 1}}, 1.0, 1.0);
    EXPECT_THROW(rank.runtime.configure(refused), UserError);
    rank.step(rank.runtime.configure(accepted), accepted, std::vector<std::vector<double>>{{1.0}});
    rank.runtime.release_model(accepted);
  });
}

TEST(AStep, ThatFailsWithABucketUnderwayEndsWithItsOwnError) {
  ToyJob job = ddp_job(2);
  job.bucket_size = 4;  // one parameter in each bucket
  const auto texts = run_ranks_to_failure(job, [](ToyRank& rank) {
    ToyModel model({{"a", 1}, {"b", 1}}, 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    try {
      engine.begin(true);
      model.add_gradient(1, std::vector<double>{1.0});
      engine.gradient_ready(1);
      if (rank.rank == 1) throw UserError("backward failed here");
      model.add_gradient(0, std::vector<double>{1.0});
      engine.gradient_ready(0);
      engine.end_backward();
    } catch (...) {
      rank.runtime.release_model(model);
      throw;
    }
  });
  EXPECT_THAT(texts[1], HasSubstr("backward failed here"));
  EXPECT_THAT(texts[0], HasSubstr("rank 1"));
}

}  // namespace
}  // namespace cohort::toy
