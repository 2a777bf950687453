// Backward passes that may fail and run again, before other ranks have got anything of them.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <vector>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using Values = std::vector<double>;

/// Runs two ranks with two weights of 0, each with a bucket of its own.
void run(const std::function<void(ToyRank&, host::StepEngine&, ToyModel&)>& body) {
  ToyJob job = ddp_job(2);
  job.bucket_size = 1;
  run_ranks(job, [&](ToyRank& rank) {
    ToyModel model({{"a", 1}, {"b", 1}}, 0.0, 1.0);
    body(rank, rank.runtime.configure(model), model);
    rank.runtime.release_model(model);
  });
}

void reach(ToyRank& rank, host::StepEngine& engine, ToyModel& model, uint32_t parameter, double factor) {
  model.add_gradient(parameter, std::array{factor * (rank.rank + 1)});
  engine.gradient_ready(parameter);
}

TEST(Attempt, HoldsGradientsUntilTheEnd) {
  run([](ToyRank& rank, host::StepEngine& engine, ToyModel& model) {
    engine.begin(true);
    engine.begin_attempt(/*holds=*/true);
    for (const uint32_t parameter : {1U, 0U}) reach(rank, engine, model, parameter, 1);
    EXPECT_EQ(rank.runtime.bytes_sent(), 0U);
    engine.end_backward();
    EXPECT_GT(rank.runtime.bytes_sent(), 0U);
    rank.update(engine, model);
    for (const uint32_t parameter : {0U, 1U}) EXPECT_EQ(model.weights(parameter), Values{-1.5});
  });
}

// The second one reaches another parameter: the first one's counts as not reached.
TEST(Attempt, LeavesNothingWhenTakenBack) {
  run([](ToyRank& rank, host::StepEngine& engine, ToyModel& model) {
    engine.begin(true);
    engine.begin_attempt(/*holds=*/true);
    reach(rank, engine, model, 1, 100);
    engine.abandon();
    EXPECT_FALSE(engine.has_begun(0));
    ASSERT_TRUE(engine.take_back());
    EXPECT_TRUE(engine.has_begun(0));
    model.forget_gradient(1);
    reach(rank, engine, model, 0, 1);
    engine.end_backward();
    EXPECT_TRUE(engine.is_used(0));
    EXPECT_FALSE(engine.is_used(1));
    rank.update(engine, model);
    EXPECT_EQ(model.weights(0), Values{-1.5});
    EXPECT_EQ(model.weights(1), Values{0});
  });
}

TEST(Attempt, KeepsEarlierMicroBatches) {
  run([](ToyRank& rank, host::StepEngine& engine, ToyModel& model) {
    engine.begin(false);
    reach(rank, engine, model, 1, 1);
    engine.end_backward();
    engine.begin(true);
    engine.begin_attempt(/*holds=*/true);
    engine.abandon();
    ASSERT_TRUE(engine.take_back());
    reach(rank, engine, model, 0, 1);
    engine.end_backward();
    EXPECT_TRUE(engine.is_used(1));
    rank.update(engine, model);
    for (const uint32_t parameter : {0U, 1U}) EXPECT_EQ(model.weights(parameter), Values{-1.5});
  });
}

TEST(Attempt, StaysOnceGradientsWereSent) {
  run([](ToyRank& rank, host::StepEngine& engine, ToyModel& model) {
    engine.begin(true);
    engine.begin_attempt(/*holds=*/false);
    reach(rank, engine, model, 1, 1);
    EXPECT_FALSE(engine.take_back());
    reach(rank, engine, model, 0, 1);
    engine.end_backward();
    rank.update(engine, model);
    for (const uint32_t parameter : {0U, 1U}) EXPECT_EQ(model.weights(parameter), Values{-1.5});
  });
}

}  // namespace
}  // namespace cohort::toy
