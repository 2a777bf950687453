// The layout of buckets follows the gradients' order of arrival. That changes no bit of the result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include <cohort/api/strategy.h>
#include <cohort/host/error.hpp>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

using Order = std::vector<uint32_t>;

// One step whose backward completes the parameters in this order; those not in it are not reached.
void step(ToyRank& rank, host::StepEngine& engine, ToyModel& model, const Order& arrivals,
          const std::vector<std::vector<double>>& gradients) {
  engine.begin(true);
  for (const uint32_t parameter : arrivals) {
    model.add_gradient(parameter, gradients[parameter]);
    engine.gradient_ready(parameter);
  }
  engine.end_backward();
  for (uint32_t i = 0; i < gradients.size(); ++i) {
    if (engine.is_used(i)) model.show_gradient(i);
  }
  engine.optimizer_step();
  for (uint32_t i = 0; i < gradients.size(); ++i) model.forget_gradient(i);
  rank.runtime.between_steps();
}

std::vector<ToyParameter> four_parameters() {
  return {{"a", 2}, {"b", 1}, {"c", 3}, {"d", 1}};
}

// Not exact in float32, so that another order of a sum would show. Large parameters are there for their size alone:
// backward does not reach them.
std::vector<std::vector<double>> gradients_of(int rank, int step, const std::vector<ToyParameter>& parameters) {
  std::vector<std::vector<double>> gradients;
  for (size_t p = 0; p < parameters.size(); ++p) {
    std::vector<double>& values = gradients.emplace_back(parameters[p].numel < 1000 ? parameters[p].numel : 0);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = 1.0 / (3.0 + rank) + 0.1 * step + static_cast<double>(p * 7 + i) / 11.0;
    }
  }
  return gradients;
}

// What every rank's parameters are after `steps` of ddp; gradients arrive in rank 0's and in the other ranks' order.
std::vector<std::vector<double>> trained(ToyJob job, const std::vector<ToyParameter>& parameters, const Order& first,
                                         const Order& others, int steps) {
  std::vector<std::vector<double>> weights(parameters.size());
  run_ranks(job, [&](ToyRank& rank) {
    ToyModel model(parameters, 1.0, 0.01);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int i = 0; i < steps; ++i) {
      step(rank, engine, model, rank.rank == 0 ? first : others, gradients_of(rank.rank, i, parameters));
    }
    for (uint32_t p = 0; p < parameters.size() && rank.rank == 0; ++p) weights[p] = model.weights(p);
    rank.runtime.release_model(model);
  });
  return weights;
}

ToyJob momentum_job(int world_size, int tell_at, int flags = 0) {
  ToyJob job = ddp_job(world_size);
  job.layers = {Spec("momentum").set("tell_at", tell_at).set("flags", flags)};
  return job;
}

// The layout in the second step, as every rank tells it.
std::vector<std::string> layouts_after(const Order& first, const Order& others, int flags = 0) {
  return run_ranks_to_failure(momentum_job(3, 1, flags), [&](ToyRank& rank) {
    ToyModel model(four_parameters(), 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int i = 0; i < 2; ++i) {
      step(rank, engine, model, rank.rank == 0 ? first : others, gradients_of(rank.rank, i, four_parameters()));
    }
  });
}

TEST(ArrivalOrder, OfRankZeroBecomesTheLayoutOnAllRanks) {
  EXPECT_THAT(layouts_after({1, 3, 0, 2}, {2, 0, 3, 1}), Each(HasSubstr("layout: b | d a | c")));
}

TEST(ArrivalOrder, PutsParametersThatBackwardDidNotReachLast) {
  EXPECT_THAT(layouts_after({2, 0}, {3, 2, 1, 0}), Each(HasSubstr("layout: c | a b | d")));
}

TEST(ArrivalOrder, ChangesNothingWhereTheStrategyDoesNotAllowIt) {
  EXPECT_THAT(layouts_after({1, 3, 0, 2}, {2, 0, 3, 1}, COHORT_PLAN_KEEP_ORDER),
              Each(HasSubstr("layout: d | c | b a")));
}

TEST(ArrivalOrder, IsThatOfTheLastMicroBatch) {
  const auto texts = run_ranks_to_failure(momentum_job(2, 1), [](ToyRank& rank) {
    ToyModel model(four_parameters(), 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    const auto gradients = gradients_of(0, 0, four_parameters());
    engine.begin(false);
    for (const uint32_t parameter : {0u, 1u, 2u, 3u}) {
      model.add_gradient(parameter, gradients[parameter]);
      engine.gradient_ready(parameter);
    }
    engine.end_backward();
    for (int i = 0; i < 2; ++i) step(rank, engine, model, {1, 0, 3, 2}, gradients);
  });
  EXPECT_THAT(texts, Each(HasSubstr("layout: b | a d | c")));
}

TEST(ANewLayout, TakesStateAndWeightsAlong) {
  run_ranks(momentum_job(2, -1), [](ToyRank& rank) {
    ToyModel model(four_parameters(), rank.rank + 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    const std::vector<std::vector<double>> gradients{{1, 2}, {4}, {8, 16, 32}, {64}};
    for (int i = 0; i < 3; ++i) step(rank, engine, model, {1, 0, 3, 2}, gradients);
    for (uint32_t p = 0; p < gradients.size(); ++p) {
      for (size_t i = 0; i < gradients[p].size(); ++i) {
        EXPECT_EQ(model.weights(p)[i], 1.0 - (1 + 2 + 3) * gradients[p][i]) << p << ' ' << i;
      }
    }
    rank.runtime.release_model(model);
    for (uint32_t p = 0; p < gradients.size(); ++p) EXPECT_EQ(model.weights(p)[0], 1.0 - 6 * gradients[p][0]);
  });
}

TEST(ANewLayout, DoesNotChangeABitOfTheResult) {
  const auto parameters = four_parameters();
  const Order as_laid_out{3, 2, 1, 0}, otherwise{1, 3, 0, 2};
  for (const int world : {2, 3}) {
    ToyJob job = ddp_job(world);
    job.bucket_size = 8;
    const auto expected = trained(ddp_job(world), parameters, as_laid_out, as_laid_out, 4);
    EXPECT_EQ(trained(job, parameters, as_laid_out, as_laid_out, 4), expected);
    EXPECT_EQ(trained(job, parameters, otherwise, as_laid_out, 4), expected);
    EXPECT_EQ(trained(job, parameters, as_laid_out, otherwise, 4),
              trained(ddp_job(world), parameters, otherwise, otherwise, 4));
  }
}

TEST(ANewLayout, OfMoreBucketsIsAveragedDuringBackward) {
  run_ranks(ddp_job(2), [](ToyRank& rank) {
    constexpr uint64_t kLarge = 1'300'000, kSmall = 100'000;  // one bucket in reverse order, two as they arrive
    ToyModel model({{"large", kLarge}, {"small", kSmall}}, 1.0, 0.01);
    host::StepEngine& engine = rank.runtime.configure(model);
    const std::vector<std::vector<double>> gradients{std::vector<double>(kLarge, 1.0),
                                                     std::vector<double>(kSmall, 1.0)};
    step(rank, engine, model, {0, 1}, gradients);
    const uint64_t before = rank.runtime.bytes_sent();
    engine.begin(true);
    model.add_gradient(0, gradients[0]);
    engine.gradient_ready(0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);  // a hang only
    const auto is_sent = [&] { return rank.runtime.bytes_sent() >= before + kLarge * sizeof(float); };
    while (!is_sent() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(is_sent()) << "backward has not reached the other bucket";
    model.add_gradient(1, gradients[1]);
    engine.gradient_ready(1);
    engine.end_backward();
    rank.update(engine, model);
    rank.runtime.release_model(model);
  });
}

TEST(ANewLayout, NamesARankThatIsMissing) {
  ToyJob job = ddp_job(2);
  job.timeout = std::chrono::milliseconds(1500);
  const auto texts = run_ranks_to_failure(job, [](ToyRank& rank) {
    ToyModel model(four_parameters(), 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.begin(true);
    engine.end_backward();
    engine.optimizer_step();
    if (rank.rank == 1) throw UserError("gone before the layout changes");
    rank.runtime.between_steps();
  });
  EXPECT_THAT(texts[0], HasSubstr("rank 1"));
  EXPECT_THAT(texts[1], HasSubstr("gone before"));
}

TEST(TwoBackwardPassesOfOneStep, AreRefusedWhereOneWouldChangeWhatWasSentWithOneBucketToo) {
  for (const uint64_t bucket_size : {4u, 1u << 20}) {
    ToyJob job = ddp_job(2);
    job.bucket_size = bucket_size;
    const auto texts = run_ranks_to_failure(job, [](ToyRank& rank) {
      ToyModel model({{"a", 1}, {"b", 1}}, 1.0, 1.0);
      host::StepEngine& engine = rank.runtime.configure(model);
      try {
        engine.begin(true);
        for (const uint32_t parameter : {1u, 0u}) {
          model.add_gradient(parameter, std::vector<double>{1.0});
          engine.gradient_ready(parameter);
        }
        engine.gradient_ready(1);  // changes nothing: the lane may be reading it
      } catch (...) {
        rank.runtime.release_model(model);
        throw;
      }
    });
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("'b' changed after it was sent"), HasSubstr("no_sync()"))));
  }
}

}  // namespace
}  // namespace cohort::toy
