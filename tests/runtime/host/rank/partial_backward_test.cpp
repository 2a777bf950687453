// Backward passes over pieces of a batch and parts of a model: gradients add up until somebody says that they are
// complete.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using Numbers = std::vector<uint32_t>;
using Values = std::vector<double>;

constexpr uint64_t kBytes = sizeof(float);  // that a rank of two sends for a bucket

/// Each parameter has a bucket. Those of the last parameters are the first ones.
ToyJob job_of_buckets() {
  ToyJob job = ddp_job(2);
  job.bucket_size = 1;
  return job;
}

std::vector<ToyParameter> two_parts() {
  return {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}};
}

/// A backward that reaches these parameters, the last one first. Gradients differ between ranks and parameters.
void reach(ToyRank& rank, host::StepEngine& engine, ToyModel& model, const Numbers& parameters, double factor = 1) {
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    model.add_gradient(*parameter, std::array{factor * (rank.rank + 1) * (*parameter + 1)});
    engine.gradient_ready(*parameter);
  }
}

/// Returns the weight that began as 0, after a step by the mean of the ranks' gradients.
Values stepped(uint32_t parameter, double factors) {
  return {-1.5 * factors * (parameter + 1)};
}

void expect_sent(const ToyRank& rank, uint64_t bytes) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);  // a hang only
  while (rank.runtime.bytes_sent() < bytes && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(rank.runtime.bytes_sent(), bytes);
}

TEST(PartialBackward, SendsNoIncompleteGradients) {
  run_ranks(job_of_buckets(), [](ToyRank& rank) {
    ToyModel model(two_parts(), 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.begin(true);
    engine.set_partial(true);
    for (const double factor : {1.0, 2.0, 3.0}) reach(rank, engine, model, {0, 1, 2, 3}, factor);
    EXPECT_EQ(rank.runtime.bytes_sent(), 0U);
    engine.set_partial(false);
    engine.end_backward();
    rank.update(engine, model);
    for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(model.weights(i), stepped(i, 6));
    rank.runtime.release_model(model);
  });
}

TEST(PartialBackward, SendsBucketsOfALaterPartFirst) {
  run_ranks(job_of_buckets(), [](ToyRank& rank) {
    ToyModel model(two_parts(), 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.begin(true);
    engine.set_partial(true);
    for (const double factor : {1.0, 2.0}) reach(rank, engine, model, {2, 3}, factor);
    reach(rank, engine, model, {0, 1}, 1);
    engine.gradients_complete(Numbers{3, 2});
    expect_sent(rank, 2 * kBytes);
    reach(rank, engine, model, {0, 1}, 2);
    EXPECT_EQ(rank.runtime.bytes_sent(), 2 * kBytes);
    engine.gradients_complete(Numbers{1, 0});
    expect_sent(rank, 4 * kBytes);
    engine.set_partial(false);
    engine.end_backward();
    EXPECT_EQ(Numbers(engine.arrival_order().begin(), engine.arrival_order().end()), (Numbers{3, 2, 1, 0}));
    rank.update(engine, model);
    for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(model.weights(i), stepped(i, 3));
    rank.runtime.release_model(model);
  });
}

// All ranks send buckets in one order.
TEST(PartialBackward, KeepsTheOrderOfBuckets) {
  run_ranks(job_of_buckets(), [](ToyRank& rank) {
    ToyModel model(two_parts(), 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.begin(true);
    engine.set_partial(true);
    reach(rank, engine, model, {0, 1, 2, 3});
    engine.gradients_complete(Numbers{1, 0});
    EXPECT_EQ(rank.runtime.bytes_sent(), 0U);
    engine.gradients_complete(Numbers{3, 2});
    expect_sent(rank, 4 * kBytes);
    engine.set_partial(false);
    engine.end_backward();
    rank.update(engine, model);
    for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(model.weights(i), stepped(i, 1));
    rank.runtime.release_model(model);
  });
}

TEST(PartialBackward, SendsAllAtTheEndWithoutOverlap) {
  run_ranks(job_of_buckets(), [](ToyRank& rank) {
    ToyModel model(two_parts(), 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.set_overlap(false);
    engine.begin(true);
    engine.set_partial(true);
    reach(rank, engine, model, {0, 1, 2, 3});
    engine.gradients_complete(Numbers{3, 2});
    engine.gradients_complete(Numbers{1, 0});
    EXPECT_EQ(rank.runtime.bytes_sent(), 0U);
    engine.set_partial(false);
    engine.end_backward();
    rank.update(engine, model);
    for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(model.weights(i), stepped(i, 1));
    rank.runtime.release_model(model);
  });
}

TEST(PartialBackward, LeavesUnreachedParametersToTheEnd) {
  run_ranks(job_of_buckets(), [](ToyRank& rank) {
    ToyModel model({{"both", 1}, {"never", 1}, {"one", 1}, {"late", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.begin(true);
    engine.set_partial(true);
    reach(rank, engine, model, rank.rank == 0 ? Numbers{0} : Numbers{0, 2});
    engine.gradients_complete(Numbers{3, 2, 1, 0});
    EXPECT_EQ(rank.runtime.bytes_sent(), 0U) << "the first bucket waits for its parameter";
    reach(rank, engine, model, {3});
    engine.set_partial(false);
    engine.end_backward();
    EXPECT_TRUE(engine.is_used(2)) << "another rank has reached it";
    EXPECT_FALSE(engine.is_used(1));
    rank.update(engine, model);
    EXPECT_EQ(model.weights(0), stepped(0, 1));
    EXPECT_EQ(model.weights(1), Values{0});
    EXPECT_EQ(model.weights(2), Values{-3.0}) << "the mean of nothing and 6";
    EXPECT_EQ(model.weights(3), stepped(3, 1));
    rank.runtime.release_model(model);
  });
}

TEST(PartialBackward, SendsNothingInAnEarlierMicroBatch) {
  run_ranks(job_of_buckets(), [](ToyRank& rank) {
    ToyModel model(two_parts(), 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (const double steps : {1.0, 2.0}) {
      for (const bool is_last : {false, false, true}) {
        const uint64_t sent = rank.runtime.bytes_sent();
        engine.begin(is_last);
        engine.set_partial(true);
        reach(rank, engine, model, {0, 1, 2, 3});
        engine.gradients_complete(Numbers{3, 2, 1, 0});
        if (is_last) expect_sent(rank, sent + 4 * kBytes);
        engine.set_partial(false);
        engine.end_backward();
        if (!is_last) {
          EXPECT_EQ(rank.runtime.bytes_sent(), sent);
        }
      }
      rank.update(engine, model);
      for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(model.weights(i), stepped(i, 3 * steps));
    }
    rank.runtime.release_model(model);
  });
}

TEST(PartialBackward, LeavesParametersOfOtherPhases) {
  run_ranks(job_of_buckets(), [](ToyRank& rank) {
    std::vector<ToyParameter> parameters = two_parts();
    parameters[1].phase = parameters[3].phase = 1;
    ToyModel model(parameters, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (const uint32_t phase : {0U, 1U}) {
      engine.begin(true, phase);
      engine.set_partial(true);
      reach(rank, engine, model, {phase, phase + 2});
      const uint64_t sent = rank.runtime.bytes_sent();
      engine.gradients_complete(Numbers{3, 2, 1, 0});
      expect_sent(rank, sent + 2 * kBytes);
      EXPECT_EQ(Numbers(engine.arrival_order().begin(), engine.arrival_order().end()), (Numbers{phase + 2, phase}));
      engine.set_partial(false);
      engine.end_backward();
      rank.update(engine, model, phase);
    }
    for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(model.weights(i), stepped(i, 1));
    rank.runtime.release_model(model);
  });
}

}  // namespace
}  // namespace cohort::toy
