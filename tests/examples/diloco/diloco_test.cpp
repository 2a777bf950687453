// Runs examples/plugins/diloco on the toy host and compares it with DiLoCo computed one number after another in double.
#include <clocale>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/toy_host/toy_host.hpp>

namespace cohort::toy {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using testing::Pointwise;

using Weights = std::vector<std::vector<double>>;  // by parameter

constexpr double kInnerRate = 0.125, kInnerMomentum = 0.5, kFirstWeight = 1.0;
constexpr double kOuterRate = 0.75, kOuterMomentum = 0.875;
constexpr int kEvery = 3;

ToyJob diloco_job(int world_size, int every = kEvery) {
  ToyJob job;
  job.plugin_dirs = {COHORT_TEST_PLUGINS};
  job.plugins = {COHORT_TEST_DILOCO};
  job.strategy = StrategySpec("diloco");
  job.strategy.set("every", std::to_string(every)).set("outer_lr", "0.75").set("outer_momentum", "0.875");
  job.collective = CollectiveSpec("shm");
  job.world_size = world_size;
  job.bucket_size = 32;
  return job;
}

const std::vector<ToyParameter> kParameters{{"a", 7}, {"b", 1}, {"c", 12}};

// The gradients pull each rank's weights to other targets.
Weights gradients_at(const Weights& weights, int rank, int step) {
  Weights gradients = weights;
  for (size_t p = 0; p < weights.size(); ++p) {
    for (size_t i = 0; i < weights[p].size(); ++i) {
      gradients[p][i] -= std::sin(static_cast<double>(1 + rank + 3 * step) * static_cast<double>(7 * p + i + 1));
    }
  }
  return gradients;
}

/// Computes DiLoCo by its definition: inner steps are SGD with momentum, outer ones SGD with Nesterov's momentum.
class Reference {
 public:
  explicit Reference(size_t ranks, const Weights& first)
      : ranks_(ranks, {first, zeros(first)}), anchor_(first), outer_(zeros(first)) {}

  void step(int step) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      Rank& own = ranks_[rank];
      const Weights gradients = gradients_at(own.weights, static_cast<int>(rank), step);
      each([&](size_t p, size_t i) {
        own.momentum[p][i] = kInnerMomentum * own.momentum[p][i] + gradients[p][i];
        own.weights[p][i] -= kInnerRate * own.momentum[p][i];
      });
    }
    if ((step + 1) % kEvery == 0) outer_step();
  }

  /// Goes on with another number of ranks, from the means of what ranks have of their own.
  void change_ranks(size_t ranks) {
    const Rank mean{mean_of(&Rank::weights), mean_of(&Rank::momentum)};
    ranks_.assign(ranks, mean);
  }

  const Weights& weights(int rank) const { return ranks_[static_cast<size_t>(rank)].weights; }
  Weights final_weights() const { return mean_of(&Rank::weights); }

 private:
  struct Rank {
    Weights weights, momentum;
  };
  std::vector<Rank> ranks_;
  Weights anchor_, outer_;

  static Weights zeros(Weights like) {
    for (auto& values : like) std::ranges::fill(values, 0.0);
    return like;
  }
  template <class Visit>
  void each(Visit visit) const {
    for (size_t p = 0; p < anchor_.size(); ++p) {
      for (size_t i = 0; i < anchor_[p].size(); ++i) visit(p, i);
    }
  }
  Weights mean_of(Weights Rank::*what) const {
    Weights mean = zeros(anchor_);
    for (const Rank& rank : ranks_) {
      each([&](size_t p, size_t i) { mean[p][i] += (rank.*what)[p][i] / static_cast<double>(ranks_.size()); });
    }
    return mean;
  }
  void outer_step() {
    const Weights mean = mean_of(&Rank::weights);
    each([&](size_t p, size_t i) {
      const double gradient = anchor_[p][i] - mean[p][i];
      outer_[p][i] = kOuterMomentum * outer_[p][i] + gradient;
      anchor_[p][i] -= kOuterRate * (gradient + kOuterMomentum * outer_[p][i]);
    });
    for (Rank& rank : ranks_) rank.weights = anchor_;
  }
};

Weights first_weights() {
  Weights first;
  for (const auto& parameter : kParameters) first.emplace_back(parameter.numel, kFirstWeight);
  return first;
}

Weights weights_of(const ToyModel& model) {
  return model.state().weights;
}

void expect_near(const Weights& found, const Weights& wanted, const std::string& when) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t p = 0; p < wanted.size(); ++p) {
    EXPECT_THAT(found[p], Pointwise(testing::DoubleNear(1e-5), wanted[p])) << when << ", parameter " << p;
  }
}

/// The states that a checkpoint of all ranks holds, by rank.
struct Checkpoint {
  std::vector<ToyState> models;
  std::vector<host::StrategyState> strategies;
};

void train(ToyRank& rank, host::StepEngine& engine, ToyModel& model, Reference& reference, int first, int last) {
  for (int step = first; step < last; ++step) {
    rank.step(engine, model, gradients_at(weights_of(model), rank.rank, step));
    reference.step(step);
    expect_near(weights_of(model), reference.weights(rank.rank), "after step " + std::to_string(step));
  }
}

TEST(Diloco, FollowsItsDefinitionAndEndsWithTheMean) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(diloco_job(ranks), [&](ToyRank& rank) {
      ToyModel model(kParameters, kFirstWeight, kInnerRate, kInnerMomentum);
      host::StepEngine& engine = rank.runtime.configure(model);
      Reference reference(static_cast<size_t>(ranks), first_weights());
      train(rank, engine, model, reference, 0, 11);  // the last round is not complete
      rank.runtime.pause(COHORT_PAUSE_END);
      expect_near(weights_of(model), reference.final_weights(), "at the end");
      rank.runtime.release_model(model);
    });
  }
}

TEST(Diloco, ReadsItsOptionsInALocaleWithADecimalComma) {
  ASSERT_TRUE(std::setlocale(LC_NUMERIC, "de_DE.UTF-8")) << "LOCPATH names no folder with this locale";
  for (const char* const rate : {"0.75", "7.5e-1", "75E-2", "00.0075e+2"}) {
    ToyJob job = diloco_job(2);
    job.strategy.set("outer_lr", rate);
    run_ranks(job, [&](ToyRank& rank) {
      ToyModel model(kParameters, kFirstWeight, kInnerRate, kInnerMomentum);
      host::StepEngine& engine = rank.runtime.configure(model);
      Reference reference(2, first_weights());
      train(rank, engine, model, reference, 0, kEvery);
      rank.runtime.release_model(model);
    });
  }
  std::setlocale(LC_NUMERIC, "C");
}

TEST(Diloco, SendsNothingInAnInnerStep) {
  run_ranks(diloco_job(2), [](ToyRank& rank) {
    ToyModel model(kParameters, kFirstWeight, kInnerRate, kInnerMomentum);
    host::StepEngine& engine = rank.runtime.configure(model);
    Reference reference(2, first_weights());
    train(rank, engine, model, reference, 0, 2);
    EXPECT_EQ(rank.runtime.bytes_sent(), 0u);
    train(rank, engine, model, reference, 2, 3);
    EXPECT_EQ(rank.runtime.bytes_sent(), (7 + 1 + 12) * sizeof(float));
    rank.runtime.release_model(model);
  });
}

Checkpoint saved_in_the_middle_of_a_round(int steps) {
  Checkpoint saved{std::vector<ToyState>(2), std::vector<host::StrategyState>(2)};
  run_ranks(diloco_job(2), [&](ToyRank& rank) {
    ToyModel model(kParameters, kFirstWeight, kInnerRate, kInnerMomentum);
    host::StepEngine& engine = rank.runtime.configure(model);
    Reference reference(2, first_weights());
    train(rank, engine, model, reference, 0, steps);
    rank.runtime.pause(COHORT_PAUSE_CHECKPOINT);
    const auto own = static_cast<size_t>(rank.rank);
    saved.models[own] = model.state();
    saved.strategies[own] = rank.runtime.save_state();
    rank.runtime.release_model(model);
  });
  return saved;
}

Weights mean_of(const Weights& one, const Weights& other) {
  Weights mean = one;
  for (size_t p = 0; p < one.size(); ++p) {
    for (size_t i = 0; i < one[p].size(); ++i) mean[p][i] = (one[p][i] + other[p][i]) / 2;
  }
  return mean;
}

TEST(Diloco, KeepsNothingThatIsOfOneRankAlone) {
  const Checkpoint saved = saved_in_the_middle_of_a_round(4);
  EXPECT_NE(saved.models[0].weights, saved.models[1].weights);
  const host::StrategyState& state = saved.strategies[0];
  EXPECT_THAT(state.buckets, ElementsAre(Key("diloco/anchor"), Key("diloco/momentum")));
  EXPECT_THAT(state.values, ElementsAre(Key("diloco/anchored")));
  for (const auto& [key, buffer] : state.buckets) EXPECT_TRUE(buffer.is_shared) << key;
  for (const auto& [key, value] : state.values) EXPECT_TRUE(value.is_shared) << key;
  EXPECT_EQ(state.buckets, saved.strategies[1].buckets);
  EXPECT_EQ(state.values, saved.strategies[1].values);
}

TEST(Diloco, GoesOnWithAnyNumberOfRanks) {
  constexpr int kSaved = 4, kSteps = 11;
  const Checkpoint saved = saved_in_the_middle_of_a_round(kSaved);
  ToyState mean = saved.models[0];
  mean.weights = mean_of(saved.models[0].weights, saved.models[1].weights);
  mean.momenta = mean_of(saved.models[0].momenta, saved.models[1].momenta);
  for (const int ranks : {1, 2, 3}) {
    run_ranks(diloco_job(ranks), [&](ToyRank& rank) {
      ToyModel model(kParameters, 0.0, kInnerRate, kInnerMomentum);
      host::StepEngine& engine = rank.runtime.configure(model);
      model.set_state(mean);
      rank.runtime.load_state(saved.strategies[0], kSaved);
      Reference reference(2, first_weights());
      for (int step = 0; step < kSaved; ++step) reference.step(step);
      reference.change_ranks(static_cast<size_t>(ranks));
      train(rank, engine, model, reference, kSaved, kSteps);
      rank.runtime.release_model(model);
    });
  }
}

// The checkpoint comes from a run without the layer, so outer steps begin at its weights.
TEST(Diloco, BeginsAtTheWeightsOfACheckpointWithoutIt) {
  run_ranks(diloco_job(2), [](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, kInnerRate, kInnerMomentum);
    host::StepEngine& engine = rank.runtime.configure(model);
    ToyState state = model.state();
    state.weights = first_weights();
    model.set_state(state);
    rank.runtime.load_state({.world_size = 5, .versions = {{"ddp", "0.1.0"}}}, 0);
    Reference reference(2, first_weights());
    train(rank, engine, model, reference, 0, 7);
    rank.runtime.release_model(model);
  });
}

// Anchors move by a quarter of what a bfloat16 near 1 can hold.
TEST(Diloco, AddsUpInFloat32WhatBfloat16CannotHold) {
  ToyJob job = diloco_job(2, 1);
  job.strategy.set("outer_lr", "0.015625").set("outer_momentum", "0");
  run_ranks(job, [](ToyRank& rank) {
    ToyModel model({{"a", 3, COHORT_BFLOAT16}}, 1.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int step = 0; step < 8; ++step) rank.step(engine, model, Weights{{0.0625, -0.0625, 0.0}});
    EXPECT_THAT(model.weights(0), ElementsAre(1 - 8 * 0.0625 / 64, 1 + 8 * 0.0625 / 64, 1));
    EXPECT_EQ(rank.runtime.save_state().buckets.at("diloco/anchor").dtype, COHORT_FLOAT32);
    rank.runtime.release_model(model);
  });
}

TEST(Diloco, CountsTheStepsOfEachOptimizer) {
  run_ranks(diloco_job(2, 2), [](ToyRank& rank) {
    ToyModel model({{.name = "a"}, {.name = "b", .phase = 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    const double own = rank.rank == 0 ? 1.0 : 3.0;
    const auto step = [&](uint32_t phase) {
      rank.backward(engine, model,
                    Weights{phase == 0 ? std::vector{own} : std::vector<double>{},
                            phase == 1 ? std::vector{own} : std::vector<double>{}},
                    true, phase);
      rank.update(engine, model, phase);
    };
    step(0);
    step(1);
    step(0);  // the outer step of the first: its gradient is the mean of 2 and 6
    const double moved = -0.75 * (4 + 0.875 * 4);
    EXPECT_EQ(model.weights(0), std::vector{moved});
    EXPECT_EQ(model.weights(1), std::vector{-own});
    step(1);
    EXPECT_EQ(model.weights(1), std::vector{moved});
    rank.runtime.release_model(model);
  });
}

TEST(Diloco, RefusesFloat16AndCheckpointsOfAnotherModel) {
  const auto of_half = run_ranks_to_failure(diloco_job(2), [](ToyRank& rank) {
    ToyModel model({{"a", 3, COHORT_FLOAT16}}, 1.0, 1.0);
    rank.runtime.configure(model);
  });
  EXPECT_THAT(of_half, testing::Each(HasSubstr("diloco cannot compute with float16 weights; train in bfloat16")));
  const auto of_another = run_ranks_to_failure(diloco_job(2), [](ToyRank& rank) {
    ToyModel model(kParameters, 1.0, 1.0);
    rank.runtime.configure(model);
    rank.runtime.load_state({.values = {{"diloco/anchored", {"\1\1", true}}}}, 4);
  });
  EXPECT_THAT(of_another, testing::Each(HasSubstr("the checkpoint is of a model with other parameters")));
}

}  // namespace
}  // namespace cohort::toy
