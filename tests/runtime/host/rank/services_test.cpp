// What the host offers to strategies beside buckets of gradients: lanes, optimizers and their state.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/host_object.hpp>

#include "ddp_job.hpp"

namespace cohort::toy {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Values = std::vector<double>;
using Gradients = std::vector<Values>;

ToyJob services_job(int world_size, const char* does, int at = -1) {
  ToyJob job = ddp_job(world_size);
  job.layers = {Spec("services").set("does", does).set("at", at)};
  return job;
}

// ---- metrics

ToyJob counting_job(int at, const std::string& name) {
  ToyJob job = ddp_job(2);
  job.layers = {Spec("services").set("does", "count").set("at", at).set("state", name)};
  return job;
}

void train_steps(ToyRank& rank, int steps) {
  ToyModel model({{"a", 3}}, 0.0, 1.0);
  host::StepEngine& engine = rank.runtime.configure(model);
  for (int step = 0; step < steps; ++step) rank.step(engine, model, Gradients{{1.0, 2.0, 3.0}});
  rank.runtime.release_model(model);
}

TEST(Metrics, KeepTheLastValueOfEachTraining) {
  using Metrics = std::map<std::string, double>;
  run_ranks(counting_job(0, "rounds_2"), [](ToyRank& rank) {
    train_steps(rank, 3);
    EXPECT_EQ(rank.runtime.strategy_metrics(), (Metrics{{"half_steps", 6.0}, {"rounds_2", 1.0}}));
    train_steps(rank, 0);
    EXPECT_EQ(rank.runtime.strategy_metrics(), Metrics{});
  });
}

TEST(Metrics, RefuseBadNamesAndInfinity) {
  for (const std::string& name : std::vector<std::string>{"Rounds", "2rounds", "", "a b", std::string(65, 'a')}) {
    const auto texts = run_ranks_to_failure(counting_job(0, name), [](ToyRank& rank) { train_steps(rank, 1); });
    EXPECT_THAT(texts, Each(AllOf(HasSubstr("end_step: strategy 'services' called metrics/1.set for '" + name + "'"),
                                  HasSubstr("no name; use a-z"))));
  }
  const auto texts = run_ranks_to_failure(counting_job(1, "a"), [](ToyRank& rank) { train_steps(rank, 1); });
  EXPECT_THAT(texts, Each(HasSubstr("strategy 'services' called metrics/1.set for 'endless' with inf; give finite")));
}

// ---- lanes

void communicate(ToyRank& rank, int steps) {
  ToyModel model({{"a", 300}, {"b", 1}}, 0.0, 1.0);
  host::StepEngine& engine = rank.runtime.configure(model);
  const Gradients gradients{Values(300, rank.rank), {2.0}};
  for (int step = 0; step < steps; ++step) rank.step(engine, model, gradients);
  EXPECT_EQ(model.weights(1), Values{-2.0 * steps});
  rank.runtime.release_model(model);
}

TEST(ALane, CommunicatesBesideTheBucketsOnCommunicatorsOfItsOwn) {
  for (const int ranks : {2, 3}) {
    run_ranks(services_job(ranks, "lane"), [](ToyRank& rank) {
      communicate(rank, 40);
      std::vector<std::string> names;
      for (const auto& flight : rank.runtime.host().recorder().flights()) names.push_back(flight.communicator);
      EXPECT_THAT(names, Contains("aside/world"));
    });
  }
}

TEST(ALane, HasTheCommunicatorsOfItsNodeAndOfTheFirstRanksOfNodes) {
  ToyJob job = services_job(4, "lane");
  job.num_nodes = 2;
  job.collective = host::parse_spec("sim,over=shm,bandwidth=100Gbit,latency=1us", "test");
  run_ranks(job, [](ToyRank& rank) {
    communicate(rank, 3);
    std::vector<std::string> names;
    for (const auto& flight : rank.runtime.host().recorder().flights()) names.push_back(flight.communicator);
    EXPECT_THAT(names, Contains("aside/node " + std::to_string(rank.rank / 2)));
  });
}

TEST(ALane, IsThereForALaterModelToo) {
  run_ranks(services_job(2, "lane"), [](ToyRank& rank) {
    communicate(rank, 2);
    const size_t communicators = rank.runtime.host().recorder().flights().size();
    ToyModel model({{"a", 1}}, 0.0, 1.0);
    rank.runtime.configure(model);
    EXPECT_EQ(rank.runtime.host().recorder().flights().size(), communicators);
    rank.runtime.release_model(model);
  });
}

TEST(ALane, ThatFailsEndsTheStepWithItsNameAndWords) {
  const auto texts = run_ranks_to_failure(services_job(2, "lane", 3), [](ToyRank& rank) { communicate(rank, 10); });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("lane '"), HasSubstr("the lane broke"))));
}

TEST(ALane, CannotHaveTheNameOfOneOfTheHosts) {
  const auto texts = run_ranks_to_failure(services_job(2, "bad_lane"), [](ToyRank& rank) { communicate(rank, 1); });
  EXPECT_THAT(texts, Each(HasSubstr("a lane cannot be called 'user'")));
}

TEST(ALane, IsMadeBeforeWorksAreUnderWay) {
  const auto texts = run_ranks_to_failure(services_job(2, "late_lane"), [](ToyRank& rank) { communicate(rank, 1); });
  EXPECT_THAT(texts, Each(HasSubstr("call it before the first submit or when all tasks are done")));
}

TEST(ALane, IsTheSameOnAllRanks) {
  const auto texts = run_ranks_to_failure(services_job(2, "other_lanes"), [](ToyRank& rank) { communicate(rank, 1); });
  EXPECT_THAT(texts, Each(HasSubstr("lane/1.create: the ranks make different lanes at the same time")));
}

TEST(AJob, TellsStrategiesWhereTheyAre) {
  run_ranks(services_job(3, "job"), [](ToyRank& rank) { communicate(rank, 1); });
}

TEST(ALoop, MayEndWithAnyOptimizer) {
  run_ranks(services_job(2, "loop"), [](ToyRank& rank) {
    ToyModel model({{.name = "a", .numel = 2}, {.name = "b", .numel = 2, .phase = 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.step(engine, model, Gradients{{1.0, 2.0}, {}});
    rank.runtime.release_model(model);
  });
}

TEST(ConnectedRank, SplitsNodesFromTheWorld) {
  ToyJob job = services_job(4, "roles");
  job.collective = CollectiveSpec("sim");  // shm serves one node
  job.num_nodes = 2;
  run_ranks(job, [](ToyRank& rank) { communicate(rank, 1); });
}

// ---- operations that are refused, and memory

TEST(ARefusedOperation, EndsNoLane) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks(services_job(ranks, "refused"), [](ToyRank& rank) { communicate(rank, 3); });
  }
}

TEST(ARefusedOperation, LeavesItsWords) {
  const auto texts = run_ranks_to_failure(services_job(2, "refused_last"), [](ToyRank& rank) { communicate(rank, 1); });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("begin_step"), HasSubstr("all_reduce: unknown data type 99"))));
}

TEST(HostMemory, IsWrittenAndRead) {
  run_ranks(services_job(2, "memory"), [](ToyRank& rank) { communicate(rank, 1); });
}

// ---- the learning rate's factor

TEST(ALearningRateFactor, ScalesTheStepAndNothingElseEverSeesIt) {
  run_ranks(services_job(2, "scale"), [](ToyRank& rank) {
    ToyModel model({{"a", 1}}, 0.0, ToyOptimizer{.learning_rate = 0.5});
    host::StepEngine& engine = rank.runtime.configure(model);
    const Gradients gradients{{1.0}};
    rank.step(engine, model, gradients);
    EXPECT_EQ(model.weights(0), Values{-1.0});
    EXPECT_EQ(model.learning_rate(), 0.5);
    rank.runtime.release_model(model);
  });
}

TEST(ALearningRateFactor, IsAFiniteNumberAboveZero) {
  const auto texts = run_ranks_to_failure(services_job(2, "bad_factor"), [](ToyRank& rank) { communicate(rank, 1); });
  EXPECT_THAT(texts, Each(HasSubstr("a finite number above 0")));
}

// ---- state of the optimizer

ToyJob halving_job(const char* state) {
  ToyJob job = services_job(2, "halve");
  job.layers[0].set("state", state);
  return job;
}

TEST(StateOfTheOptimizer, LiesInBucketsWhereTheStrategyWorksOnIt) {
  run_ranks(halving_job("momentum_buffer"), [](ToyRank& rank) {
    ToyModel model({{"a", 3}, {"b", 2}}, 0.0, ToyOptimizer{.learning_rate = 1, .momentum = 0.5});
    host::StepEngine& engine = rank.runtime.configure(model);
    for (int step = 0; step < 3; ++step) rank.step(engine, model, Gradients{{1, 2, 4}, {8, 16}});
    // m: 1, halved; 0.25 + 1, halved; ...
    const double steps = 1 + 1.25 + 1.3125;
    EXPECT_THAT(model.weights(0), ElementsAre(-steps, -2 * steps, -4 * steps));
    EXPECT_THAT(model.weights(1), ElementsAre(-8 * steps, -16 * steps));
    rank.runtime.release_model(model);
    EXPECT_EQ(model.state().momenta[0], (Values{0.65625, 1.3125, 2.625}));
  });
}

TEST(StateOfTheOptimizer, OfAdamIsThereBeforeItsFirstStep) {
  run_ranks(halving_job("exp_avg"), [](ToyRank& rank) {
    ToyModel model({{"a", 3}, {"b", 2}}, 0.0, ToyOptimizer{.kind = "adam", .learning_rate = 1, .eps = 0});
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.step(engine, model, Gradients{{1, 2, 4}, {8, 16}});
    for (const double weight : model.weights(0)) EXPECT_NEAR(weight, -1, 1e-6);
    EXPECT_NEAR(model.state().momenta[0][2], 0.2, 1e-6);  // (1 - beta1) 4, halved
    EXPECT_EQ(model.state().steps, (std::vector<int64_t>{2, 1}));
    rank.runtime.release_model(model);
  });
}

TEST(StateOfTheOptimizer, ThatItDoesNotKeepIsRefused) {
  const auto texts = run_ranks_to_failure(halving_job("exp_avg"), [](ToyRank& rank) {
    ToyModel model({{"a", 3}, {"b", 2}}, 0.0, 1.0, 0.5);
    rank.runtime.configure(model);
  });
  EXPECT_THAT(texts, Each(HasSubstr("keeps no 'exp_avg'")));
}

TEST(StateOfTheOptimizer, OfRankZeroIsThatOfAllWhenTrainingBegins) {
  run_ranks(ddp_job(3), [](ToyRank& rank) {
    ToyModel model({{"a", 2}, {"b", 1}}, 0.0, ToyOptimizer{.kind = "adam"});
    ToyState state = model.state();
    if (rank.rank == 0) {
      state.momenta = {{1, 2}, {3}};
      state.squares = {{4, 5}, {6}};
      state.steps = {7, 8};
    } else if (rank.rank == 1) {
      state.momenta = {{-1, -1}, {-1}};
      state.steps = {1, 1};
    }
    model.set_state(state);
    rank.runtime.configure(model);
    EXPECT_EQ(model.state().momenta, (std::vector<Values>{{1, 2}, {3}}));
    EXPECT_EQ(model.state().squares, (std::vector<Values>{{4, 5}, {6}}));
    EXPECT_EQ(model.state().steps, (std::vector<int64_t>{7, 8}));
    rank.runtime.release_model(model);
  });
}

TEST(Ranks, WithOptimizersOfDifferentKindsAreFoundAndShown) {
  const auto texts = run_ranks_to_failure(ddp_job(2), [](ToyRank& rank) {
    ToyModel model({{"a", 1}}, 0.0, ToyOptimizer{.kind = rank.rank == 0 ? "sgd" : "adam"});
    rank.runtime.configure(model);
  });
  EXPECT_THAT(texts, Each(AllOf(HasSubstr("optimizer sgd"), HasSubstr("optimizer adam"))));
}

// ---- layout and votes

TEST(AStrategy, MayStopAveragingGradientsBetweenTwoSteps) {
  run_ranks(services_job(2, "stop_averaging", 1), [](ToyRank& rank) {
    ToyModel model({{"a", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    const Gradients gradients{{rank.rank * 2.0}};  // 1 in the mean
    EXPECT_TRUE(engine.wants_gradients());
    for (int step = 0; step < 2; ++step) rank.step(engine, model, gradients);
    EXPECT_EQ(model.weights(0), Values{-2.0});
    EXPECT_FALSE(engine.wants_gradients());
    rank.step(engine, model, gradients);
    EXPECT_EQ(model.weights(0), Values{-2.0 - rank.rank * 2.0});
    rank.runtime.release_model(model);
  });
}

TEST(WithoutGradients, ARankThatIsAloneHearsItselfInEveryStep) {
  run_ranks(services_job(1, "stop_averaging", 0), [](ToyRank& rank) {
    ToyModel model({{"a", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.vote_every(50);
    engine.vote({.stop = true});
    EXPECT_TRUE(rank.step(engine, model, Gradients{{1.0}}).stop);
    rank.runtime.release_model(model);
  });
}

TEST(WithoutGradients, VotesAreHeardInTheStepsThatAskForThem) {
  run_ranks(services_job(2, "stop_averaging", 0), [](ToyRank& rank) {
    ToyModel model({{"a", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    engine.vote_every(4);
    engine.vote({.stop = rank.rank == 1});
    const Gradients gradients{{1.0}};
    std::vector<bool> heard;
    for (int step = 0; step < 9; ++step) heard.push_back(rank.step(engine, model, gradients).stop);
    EXPECT_THAT(heard, ElementsAre(true, false, false, true, false, false, false, true, false));
    rank.runtime.release_model(model);
  });
}

TEST(ReplayedSteps, AreCountedAndVoteAtTheInterval) {
  run_ranks(services_job(2, "stop_averaging", 0), [](ToyRank& rank) {
    ToyModel model({{"a", 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    rank.step(engine, model, Gradients{{1.0}});
    const Values weights = model.weights(0);
    engine.leave_capture();
    engine.vote_every(3);
    engine.vote({.stop = rank.rank == 1});
    std::vector<bool> heard;
    for (int step = 1; step < 7; ++step) {
      engine.count_replayed_step();
      heard.push_back(engine.votes().stop);
    }
    EXPECT_EQ(engine.steps(), 7u);
    EXPECT_THAT(heard, ElementsAre(false, true, false, false, true, false));
    EXPECT_EQ(model.weights(0), weights) << "the device takes them, not the engine";
    rank.runtime.release_model(model);
  });
}

}  // namespace
}  // namespace cohort::toy
