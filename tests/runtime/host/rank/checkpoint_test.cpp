#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;

ToyJob drifting_job(uint64_t bucket_size) {
  ToyJob job = ddp_job(2);
  job.layers = {Spec("drifting")};
  job.bucket_size = bucket_size;
  return job;
}

const std::vector<ToyParameter> kParameters{{"a", 3}, {"b", 2}, {"c", 5}};

void train_between(ToyRank& rank, host::StepEngine& engine, ToyModel& model, int first, int last) {
  for (int step = first; step < last; ++step) {
    std::vector<std::vector<double>> gradients;
    for (const auto& parameter : kParameters) {
      gradients.emplace_back(parameter.numel, rank.rank + 0.25 * step + static_cast<double>(parameter.numel));
    }
    rank.step(engine, model, gradients);
  }
}

host::StrategyState saved_by(ToyRank& rank) {
  rank.runtime.pause(COHORT_PAUSE_CHECKPOINT);
  return rank.runtime.save_state();
}

// Each gradient depends on the memory and on the count of steps, and the next memory on the gradient.
TEST(AStrategysState, ComesBackInAnotherProcessAndAnotherLayoutBitByBit) {
  std::vector<host::StrategyState> middle(2), uninterrupted(2), continued(2);
  run_ranks(drifting_job(1 << 20), [&](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    train_between(rank, engine, model, 0, 3);
    middle[static_cast<size_t>(rank.rank)] = saved_by(rank);
    train_between(rank, engine, model, 3, 6);
    uninterrupted[static_cast<size_t>(rank.rank)] = saved_by(rank);
    rank.runtime.release_model(model);
  });
  EXPECT_THAT(middle[0].values, ElementsAre(Key("drifting/steps")));
  EXPECT_THAT(middle[0].buckets, ElementsAre(Key("drifting/memory")));
  EXPECT_EQ(middle[0].buckets["drifting/memory"].values.size(), kParameters.size());
  EXPECT_NE(middle[0].buckets, middle[1].buckets);

  run_ranks(drifting_job(1), [&](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.runtime.load_state(middle[static_cast<size_t>(rank.rank)], 3);
    EXPECT_EQ(engine.steps(), 3U);
    train_between(rank, engine, model, 3, 6);
    continued[static_cast<size_t>(rank.rank)] = saved_by(rank);
    EXPECT_EQ(engine.steps(), 6U);
    rank.runtime.release_model(model);
  });
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(continued[rank].values, uninterrupted[rank].values);
    EXPECT_EQ(continued[rank].buckets, uninterrupted[rank].buckets);
    EXPECT_NE(continued[rank].buckets, middle[rank].buckets);
  }
}

// Both layers keep sums of mean gradients, which are equal on all ranks.
TEST(AStrategysState, GoesToAnotherNumberOfRanksIfItIsShared) {
  const auto step = [](ToyRank& rank, host::StepEngine& engine, ToyModel& model) {
    rank.step(engine, model, std::vector<std::vector<double>>{{1, 2}, {4}});
  };
  const std::vector<ToyParameter> parameters{{"a", 2}, {"b", 1}};
  ToyJob job = ddp_job(2);
  job.layers = {Spec("sum_1"), Spec("sum_2")};
  std::vector<host::StrategyState> saved(2);
  run_ranks(job, [&](ToyRank& rank) {
    ToyModel model(parameters, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int i = 0; i < 3; ++i) step(rank, engine, model);
    saved[static_cast<size_t>(rank.rank)] = saved_by(rank);
    rank.runtime.release_model(model);
  });
  EXPECT_EQ(saved[0].values, saved[1].values);
  EXPECT_EQ(saved[0].buckets, saved[1].buckets);
  for (const auto& [key, value] : saved[0].values) EXPECT_TRUE(value.is_shared) << key;
  for (const auto& [key, buffer] : saved[0].buckets) EXPECT_TRUE(buffer.is_shared) << key;
  EXPECT_EQ(saved[0].world_size, 2);
  EXPECT_EQ(saved[0].versions.at("sum_1"), "1.0.0");
  EXPECT_EQ(saved[0].versions.size(), 3U);
  for (const int world_size : {1, 3}) {
    job.world_size = world_size;
    run_ranks(job, [&](ToyRank& rank) {
      ToyModel model(parameters, 0.0, 1.0);
      host::StepEngine& engine = rank.runtime.configure(model);
      rank.runtime.load_state(saved[0], 3);
      step(rank, engine, model);
      // The sums are four times the gradient in this step, of which the second layer takes twice as much.
      EXPECT_EQ(model.weights(1), std::vector<double>{-12.0 * 4});
      rank.runtime.release_model(model);
    });
  }
}

TEST(AStrategysState, RefusesWhatArchiveDoesNotKnow) {
  const auto error = [](const char* does) {
    ToyJob job = ddp_job(1);
    job.layers = {Spec("services").set("does", does)};
    return run_ranks_to_failure(job, [](ToyRank& rank) {
      ToyModel model(kParameters, 0.0, 1.0);
      rank.runtime.configure(model);
      rank.runtime.load_state(rank.runtime.save_state(), 0);
    })[0];
  };
  EXPECT_THAT(error("archive_flag"), HasSubstr("archive/1.set: unknown flags 8"));
  EXPECT_THAT(error("archive_null"), HasSubstr("archive/1.set: the value is null"));
  EXPECT_THAT(error("archive_long_key"), HasSubstr("archive/1: a key has 1 to 256 bytes"));
  EXPECT_THAT(error("archive_get_early"), HasSubstr("archive/1.get works inside of load_state only"));
  EXPECT_THAT(error("archive_set_late"), HasSubstr("archive/1.set works inside of save_state only"));
}

TEST(AStrategysState, HoldsTheStepsOfEachPhase) {
  run_ranks(ddp_job(2), [](ToyRank& rank) {
    ToyModel model({{.name = "a"}, {.name = "b", .phase = 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.runtime.load_state({.steps = {7, 40}}, 40);
    EXPECT_THAT(rank.runtime.save_state().steps, ElementsAre(7, 40));
    EXPECT_EQ(engine.steps(), 40U);
    rank.runtime.load_state({}, 9);
    EXPECT_THAT(rank.runtime.save_state().steps, ElementsAre(9, 9));
    rank.runtime.release_model(model);
  });
}

TEST(AStrategysState, IsOfOneTrainingOnly) {
  run_ranks(drifting_job(1 << 20), [](ToyRank& rank) {
    std::vector<host::StrategyState::Buckets> at_first;
    for (int training = 0; training < 2; ++training) {
      ToyModel model(kParameters, 0.0, 1.0);
      host::StepEngine& engine = rank.runtime.configure(model);
      at_first.push_back(saved_by(rank).buckets);
      train_between(rank, engine, model, 0, 2);
      EXPECT_NE(saved_by(rank).buckets, at_first[0]);
      rank.runtime.release_model(model);
    }
    EXPECT_EQ(at_first[1], at_first[0]);
  });
}

TEST(AStrategysState, IsEmptyWhereAStrategyKeepsNone) {
  run_ranks(ddp_job(2), [](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, 1.0);
    rank.runtime.configure(model);
    const host::StrategyState state = rank.runtime.save_state();
    EXPECT_TRUE(state.values.empty());
    EXPECT_TRUE(state.buckets.empty());
    rank.runtime.release_model(model);
  });
}

TEST(AStrategysState, DropsValuesOfAbsentLayers) {
  host::StrategyState saved;
  run_ranks(drifting_job(1), [&](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, 1.0);
    train_between(rank, rank.runtime.configure(model), model, 0, 2);
    if (const auto own = saved_by(rank); rank.rank == 0) saved = own;
    rank.runtime.release_model(model);
  });
  saved.values["absent/rounds"] = {"12345678"};
  saved.buckets["absent/memory"] = saved.buckets.at("drifting/memory");
  run_ranks(drifting_job(1), [&](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, 1.0);
    rank.runtime.configure(model);
    rank.runtime.load_state(saved, 2);
    const host::StrategyState again = saved_by(rank);
    EXPECT_THAT(again.values, ElementsAre(Key("drifting/steps")));
    EXPECT_THAT(again.buckets, ElementsAre(Key("drifting/memory")));
    rank.runtime.release_model(model);
  });
}

TEST(AStrategysState, ThatCannotBeReadEndsTheRunWithTheSlotsName) {
  const auto texts = run_ranks_to_failure(drifting_job(1), [](ToyRank& rank) {
    ToyModel model(kParameters, 0.0, 1.0);
    rank.runtime.configure(model);
    rank.runtime.load_state({.values = {{"drifting/steps", {"short"}}}}, 3);
  });
  EXPECT_THAT(texts, ::testing::Each(HasSubstr("load_state")));
}

}  // namespace
}  // namespace cohort::toy
