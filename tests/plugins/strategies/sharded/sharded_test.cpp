// sharded on the toy host, beside ddp: the same weights, with each parameter's state on one rank alone.
#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/toy_host/toy_host.hpp>

namespace cohort::toy {
namespace {

using testing::Each;
using testing::HasSubstr;
using Values = std::vector<double>;
using Gradients = std::vector<Values>;

ToyJob job_of(const char* strategy, int ranks, uint64_t bucket_size = 256) {
  ToyJob job;
  job.plugin_dirs = {COHORT_TEST_PLUGIN_DIR};
  job.strategy = StrategySpec(strategy);
  job.collective = CollectiveSpec("shm");
  job.world_size = ranks;
  job.bucket_size = bucket_size;
  return job;
}

const std::vector<ToyParameter> kParameters{{"a", 33, COHORT_FLOAT64},
                                            {"b", 2},
                                            {"frozen", 3, COHORT_FLOAT32, false},
                                            {"c", 7, COHORT_FLOAT64},
                                            {"d", 64},
                                            {"none", 0},
                                            {"e", 12},
                                            {"f", 50}};

Gradients gradients_of(int rank, int step) {
  Gradients gradients;
  for (size_t parameter = 0; parameter < kParameters.size(); ++parameter) {
    const bool is_used = kParameters[parameter].requires_grad && (parameter != 6 || step % 2 == 0);
    auto& values = gradients.emplace_back(is_used ? kParameters[parameter].numel : 0);
    for (uint64_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(static_cast<double>(i + 1) * (rank + 1) + 0.7 * step + 3.1 * static_cast<double>(parameter));
    }
  }
  return gradients;
}

struct Trained {
  std::vector<std::vector<Values>> weights;  // by rank
  std::vector<std::vector<bool>> has_state;  // by rank and parameter
  double norm = 0;                           // of the last step
};

Trained trained(const ToyJob& job, int steps, std::optional<ToyRank::Clip> clip = std::nullopt,
                const std::function<Gradients(int rank, int step)>& gradients = gradients_of) {
  Trained all;
  all.weights.resize(static_cast<size_t>(job.world_size));
  all.has_state.resize(static_cast<size_t>(job.world_size));
  run_ranks(job, [&](ToyRank& rank) {
    ToyModel model(kParameters, 1.0, {.kind = "adamw", .learning_rate = 0.125, .weight_decay = 0.25});
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.clip = clip;
    for (int step = 0; step < steps; ++step) rank.step(engine, model, gradients(rank.rank, step));
    const auto own = static_cast<size_t>(rank.rank);
    all.weights[own] = model.state().weights;
    for (uint32_t id = 0; id < kParameters.size(); ++id) all.has_state[own].push_back(model.has_state(id));
    if (rank.rank == 1) all.norm = rank.norm;
    rank.runtime.release_model(model);
  });
  return all;
}

// With steps enough for the host to try all ways to communicate that it knows.
TEST(Sharded, TrainsToTheBitsOfDdpWithEachStateOnOneRank) {
  for (const int ranks : {2, 3, 4}) {
    for (const uint64_t bucket_size : {64u, 256u, 4096u}) {
      const Trained wanted = trained(job_of("ddp", ranks), 45),
                    got = trained(job_of("sharded", ranks, bucket_size), 45);
      EXPECT_THAT(got.weights, Each(wanted.weights[0])) << ranks << " ranks";
      for (size_t id = 0; id < kParameters.size(); ++id) {
        int keepers = 0;
        for (const auto& rank : got.has_state) keepers += rank[id] ? 1 : 0;
        EXPECT_EQ(keepers, wanted.has_state[0][id] ? 1 : 0) << kParameters[id].name;
      }
    }
  }
}

void expect_near(const Trained& got, const Trained& wanted) {
  for (const auto& weights : got.weights) {
    EXPECT_EQ(weights, got.weights[0]);
    for (size_t id = 0; id < weights.size(); ++id) {
      const double rounding = kParameters[id].dtype == COHORT_FLOAT64 ? 1e-12 : 1e-5;
      for (size_t i = 0; i < weights[id].size(); ++i) EXPECT_NEAR(weights[id][i], wanted.weights[0][id][i], rounding);
    }
  }
}

TEST(Sharded, LimitsGradientsByTheNormOverAllRanks) {
  for (const double limit : {0.5, 5.0, 1000.0}) {
    const ToyRank::Clip clip{COHORT_CLIP_NORM, limit};
    const Trained wanted = trained(job_of("ddp", 3), 6, clip), got = trained(job_of("sharded", 3), 6, clip);
    EXPECT_NEAR(got.norm, wanted.norm, 1e-12 * wanted.norm);
    EXPECT_GT(wanted.norm, 1.0);
    expect_near(got, wanted);
  }
}

TEST(Sharded, LimitsElementsByValue) {
  const ToyRank::Clip clip{COHORT_CLIP_VALUE, 0.25};
  const Trained wanted = trained(job_of("ddp", 3), 6, clip), got = trained(job_of("sharded", 3), 6, clip);
  EXPECT_NEAR(got.norm, wanted.norm, 1e-12 * wanted.norm);
  EXPECT_THAT(got.weights, Each(wanted.weights[0]));
}

// An infinite norm would make the factor infinity / infinity.
TEST(Sharded, OnlyMeasuresWithAnInfiniteLimit) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr size_t kOverflown = 0;  // its first element becomes a NaN, which equals none
  const auto overflown = [](int rank, int step) {
    Gradients gradients = gradients_of(rank, step);
    if (rank == 0) gradients[kOverflown][0] = kInfinity;
    return gradients;
  };
  for (const int32_t by : {COHORT_CLIP_NORM, COHORT_CLIP_VALUE}) {
    const ToyRank::Clip clip{by, kInfinity};
    const Trained plain = trained(job_of("ddp", 3), 6), measured = trained(job_of("sharded", 3), 6, clip);
    EXPECT_THAT(measured.weights, Each(plain.weights[0]));
    EXPECT_GT(measured.norm, 1.0);
    Trained wanted = trained(job_of("ddp", 3), 6, clip, overflown),
            got = trained(job_of("sharded", 3), 6, clip, overflown);
    EXPECT_EQ(got.norm, kInfinity);
    for (auto* const all : {&wanted, &got}) {
      for (auto& weights : all->weights) weights[kOverflown][0] = 0;
    }
    EXPECT_THAT(got.weights, Each(wanted.weights[0])) << "by " << by;
  }
}

TEST(Sharded, RefusesASecondBackwardOfAStep) {
  const auto texts = run_ranks_to_failure(job_of("sharded", 2), [](ToyRank& rank) {
    ToyModel model(kParameters, 1.0, 0.5);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.backward(engine, model, gradients_of(rank.rank, 0));
    engine.select(0);
    for (uint32_t id = 0; id < kParameters.size(); ++id) {
      if (kParameters[id].requires_grad) engine.gradient_ready(id);
    }
    engine.end_backward();
  });
  EXPECT_THAT(texts, Each(HasSubstr("add up the losses and call backward once")));
}

TEST(Sharded, RefusesAnOptimizerThatStepsAllTogether) {
  const auto texts = run_ranks_to_failure(job_of("sharded", 2), [](ToyRank& rank) {
    ToyModel model(kParameters, 1.0, {.kind = "whole"});
    rank.runtime.configure(model);
  });
  EXPECT_THAT(texts, Each(HasSubstr("the optimizer whole steps all of its parameters together")));
}

}  // namespace
}  // namespace cohort::toy
