// Compares plain data parallel runs with those in which one rank owns parameters, some parameters step alone, or
// gradients are limited.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using Values = std::vector<double>;
using Gradients = std::vector<Values>;

ToyJob owners_job(const std::string& does, int ranks = 2) {
  ToyJob job = ddp_job(ranks);
  job.layers = {Spec("owners").set("does", does)};
  return job;
}

std::vector<ToyParameter> two_phases() {
  return {{"a", 3}, {"b", 2, COHORT_FLOAT64}, {"c", 4, COHORT_FLOAT32, true, 1}, {"d", 1, COHORT_FLOAT32, true, 1}};
}

ToyOptimizer adam() {
  return {.kind = "adam", .learning_rate = 0.125};
}

Gradients phase_gradients(int rank, int step) {
  Gradients gradients;
  for (const ToyParameter& parameter : two_phases()) {
    auto& values = gradients.emplace_back();
    for (uint64_t i = 0; i < parameter.numel; ++i) {
      values.push_back(static_cast<double>(rank + 1) - 0.5 * static_cast<double>(i + 2 * gradients.size()) + step);
    }
  }
  return gradients;
}

void train_phases(ToyRank& rank, host::StepEngine& engine, ToyModel& model, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    for (const uint32_t phase : {0u, 1u}) {
      Gradients gradients = phase_gradients(rank.rank, step);
      for (uint32_t id = 0; id < gradients.size(); ++id) {
        if (model.phase_of(id) != phase) gradients[id].clear();
      }
      rank.backward(engine, model, gradients, true, phase);
      rank.update(engine, model, phase);
    }
  }
}

std::vector<Values> weights_after(const ToyJob& job, int steps) {
  std::vector<Values> weights;
  run_ranks(job, [&](ToyRank& rank) {
    ToyModel model(two_phases(), 1.0, adam());
    train_phases(rank, rank.runtime.configure(model), model, 0, steps);
    if (rank.rank + 1 == rank.world_size) weights = model.state().weights;
    rank.runtime.release_model(model);
  });
  return weights;
}

TEST(Owners, StepTheirOwnParametersAndKeepTheirStateAlone) {
  const auto expected = weights_after(ddp_job(3), 4);
  for (const std::string does : {"own", "step_each"}) {
    EXPECT_EQ(weights_after(owners_job(does, 3), 4), expected);
    run_ranks(owners_job(does, 3), [&](ToyRank& rank) {
      ToyModel model(two_phases(), 1.0, adam());
      train_phases(rank, rank.runtime.configure(model), model, 0, 2);
      for (uint32_t id = 0; id < 4; ++id) {
        EXPECT_EQ(model.has_state(id), static_cast<int>(id) % 3 == rank.rank) << id;
        EXPECT_EQ(rank.runtime.has_mean_gradient(id), static_cast<int>(id) % 3 == rank.rank) << id;
      }
      rank.runtime.release_model(model);
    });
  }
}

TEST(Owners, KeepTheirStateInALaterTraining) {
  std::vector<Values> weights;
  run_ranks(owners_job("own", 2), [&](ToyRank& rank) {
    ToyModel model(two_phases(), 1.0, adam());
    train_phases(rank, rank.runtime.configure(model), model, 0, 2);
    rank.runtime.release_model(model);
    train_phases(rank, rank.runtime.configure(model), model, 2, 4);
    if (rank.rank == 1) weights = model.state().weights;
    rank.runtime.release_model(model);
  });
  EXPECT_EQ(weights, weights_after(ddp_job(2), 4));
}

TEST(Owners, GetTheStateThatRankZeroAloneHas) {
  std::vector<Values> weights;
  ToyState half;
  run_ranks(ddp_job(2), [&](ToyRank& rank) {
    ToyModel model(two_phases(), 1.0, adam());
    train_phases(rank, rank.runtime.configure(model), model, 0, 2);
    if (rank.rank == 0) half = model.state();
    rank.runtime.release_model(model);
  });
  run_ranks(owners_job("own", 2), [&](ToyRank& rank) {
    ToyModel model(two_phases(), 1.0, adam());
    if (rank.rank == 0) model.set_state(half);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (uint32_t id = 0; id < 4; ++id) EXPECT_EQ(model.has_state(id), static_cast<int>(id) % 2 == rank.rank) << id;
    train_phases(rank, engine, model, 2, 4);
    if (rank.rank == 1) weights = model.state().weights;
    rank.runtime.release_model(model);
  });
  EXPECT_EQ(weights, weights_after(ddp_job(2), 4));
}

TEST(Owners, AreRefusedWhereTheyCannotBe) {
  const auto failures = [](const std::string& does, ToyOptimizer optimizer = adam()) {
    return run_ranks_to_failure(owners_job(does), [&](ToyRank& rank) {
      ToyModel model(two_phases(), 1.0, optimizer);
      train_phases(rank, rank.runtime.configure(model), model, 0, 1);
    });
  };
  EXPECT_THAT(failures("late"), Each(HasSubstr("called optimizer/1.own outside of configure_model, or after")));
  EXPECT_THAT(failures("own_all"), Each(HasSubstr("gives the optimizer state of 'a' to 2 ranks")));
  EXPECT_THAT(failures("own_none"), Each(HasSubstr("gives the optimizer state of 'a' to 0 ranks")));
  EXPECT_THAT(failures("own_unknown"), Each(HasSubstr("optimizer/1.own: no parameter 4")));
  EXPECT_THAT(failures("own_twice"), Each(HasSubstr("is named twice")));
  EXPECT_THAT(failures("own_other"), Each(HasSubstr("belongs to optimizer 1, not to 0")));
  EXPECT_THAT(failures("step_foreign"), Each(HasSubstr("is owned by another rank, which alone has its state")));
  EXPECT_THAT(failures("step_twice"), Each(HasSubstr("is named twice")));
  EXPECT_THAT(failures("own", {.kind = "whole"}), Each(HasSubstr("steps all of its parameters together")));
}

// ---- limits

struct Limited {
  Values weights;
  double norm = 0;
};

Limited limited(ToyRank::Clip clip) {
  Limited result;
  run_ranks(ddp_job(2), [&](ToyRank& rank) {
    ToyModel model({{"a", 2, COHORT_FLOAT64}, {"b", 1, COHORT_FLOAT64}, {"frozen", 1, COHORT_FLOAT64, false}}, 0.0,
                   1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.clip = clip;
    rank.step(engine, model, Gradients{{2.0 + rank.rank, 4.0}, {12.0 - 2 * rank.rank}, {}});  // mean: 2.5, 4, 11
    if (rank.rank == 1) {
      result.weights = model.weights(0);
      result.weights.push_back(model.weights(1)[0]);
      result.norm = rank.norm;
    }
    rank.runtime.release_model(model);
  });
  return result;
}

TEST(ClipGradients, LimitsTheNormOfAllMeanGradientsTogether) {
  const double norm = std::sqrt(2.5 * 2.5 + 16.0 + 121.0);
  const Limited result = limited({COHORT_CLIP_NORM, 1.5});
  EXPECT_DOUBLE_EQ(result.norm, norm);
  const double factor = 1.5 / (norm + 1e-6);
  EXPECT_EQ(result.weights, (Values{-2.5 * factor, -4 * factor, -11 * factor}));
  EXPECT_EQ(limited({COHORT_CLIP_NORM, 50}).weights, (Values{-2.5, -4, -11}));
}

TEST(ClipGradients, LimitsEachElementByValue) {
  EXPECT_EQ(limited({COHORT_CLIP_VALUE, 3}).weights, (Values{-2.5, -3, -3}));
}

TEST(ClipGradients, OnlyMeasuresWhereTheLimitIsInfinite) {
  for (const int32_t by : {COHORT_CLIP_NORM, COHORT_CLIP_VALUE}) {
    const Limited result = limited({by, std::numeric_limits<double>::infinity()});
    EXPECT_DOUBLE_EQ(result.norm, std::sqrt(2.5 * 2.5 + 16.0 + 121.0));
    EXPECT_EQ(result.weights, (Values{-2.5, -4, -11}));
  }
}

TEST(ClipGradients, RefusesWhatGradientsCannotBeLimitedBy) {
  const auto texts = run_ranks_to_failure(ddp_job(2), [](ToyRank& rank) {
    ToyModel model({{"a", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.clip = {3, 1.0};
    rank.step(engine, model, Gradients{{1.0}});
  });
  EXPECT_THAT(texts, Each(HasSubstr("gradients cannot be limited by 3")));
}

}  // namespace
}  // namespace cohort::toy
