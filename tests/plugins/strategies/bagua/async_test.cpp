// async: what must hold whenever rounds begin and end. Corrections add up to 0, and gradients here do not depend on
// weights, so the mean over ranks is that of ranks which never met.
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "job.hpp"

namespace {

using namespace cohort::test;
using namespace cohort;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using ::testing::HasSubstr;

/// Each rank for itself.
ByRank alone(const Training& training, int steps) {
  ByRank weights;
  for (int rank = 0; rank < training.ranks; ++rank) {
    Flat own = first_weights(training);
    Sgd sgd(training);
    for (int step = 0; step < steps; ++step) {
      for (int micro = 0; micro < training.micro_batches; ++micro) {
        Flat gradient = gradients(training, rank, step * training.micro_batches + micro);
        if (step >= training.zero_from) gradient.assign(gradient.size(), 0.0f);
        sgd.step(own, gradient);
      }
    }
    weights.push_back(std::move(own));
  }
  return weights;
}

double distance(const Flat& a, const Flat& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

constexpr double kNear = 2e-5;

void expect_near(const Flat& got, const Flat& wanted) {
  EXPECT_LT(distance(got, wanted), kNear);
}

class Async : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Async, ::testing::Values(2, 3, 4));

TEST_P(Async, BringsRanksToTheirMeanWhenNothingIsLearned) {
  const Training training{.algorithm = "async,sync_interval_ms=5", .ranks = GetParam(), .zero_from = 4};
  ByRank before_end(static_cast<size_t>(GetParam())), after(before_end);
  const ByRank apart = alone(training, 4);
  const Flat mean = mean_of(apart);
  std::atomic<int> arrived{0};
  on_ranks(training, [&](Trainee& trainee) {
    trainee.engine().vote_every(1'000'000);  // each takes as many steps as the rounds need
    trainee.steps(0, 4);
    bool is_near = false;
    const auto hang = std::chrono::steady_clock::now() + 120s;
    for (int step = 4; arrived < GetParam() && std::chrono::steady_clock::now() < hang; ++step) {
      std::this_thread::sleep_for(1ms);
      trainee.step(step);
      const bool was_near = std::exchange(is_near, is_near || distance(trainee.weights(), mean) < kNear);
      arrived += is_near && !was_near;
    }
    before_end[static_cast<size_t>(trainee.rank())] = trainee.weights();
    after[static_cast<size_t>(trainee.rank())] = trainee.finish();
    if (trainee.runtime().strategy_metrics().at("rounds") < 1) throw std::runtime_error("no round was counted");
  });
  EXPECT_GT(distance(apart[0], apart[1]), 0.05);
  for (const Flat& own : before_end) expect_near(own, mean);
  for (const Flat& own : after) {
    expect_near(own, mean);
    EXPECT_EQ(difference(own, after[0]), "");
  }
}

/// Ranks of different speed that are evaluated and saved now and then, and do not wait for each other otherwise.
void train_at_own_pace(Trainee& trainee, int steps) {
  trainee.engine().vote_every(1'000'000);
  for (int step = 0; step < steps; ++step) {
    if ((step * 7 + trainee.rank()) % 5 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(trainee.rank() + 1));
    trainee.step(step);
    if (step % 23 != 22) continue;
    const Flat before = trainee.weights();
    for (const int32_t reason : {COHORT_PAUSE_EVALUATE, COHORT_PAUSE_CHECKPOINT}) {
      trainee.runtime().pause(reason);
      if (!difference(before, trainee.weights()).empty()) throw std::runtime_error("a pause changed weights");
    }
  }
}

TEST_P(Async, KeepsWhatRanksLearnWhileARoundIsUnderWay) {
  const Training training{.algorithm = "async,sync_interval_ms=1", .ranks = GetParam()};
  constexpr int kSteps = 120;
  ByRank ends(static_cast<size_t>(GetParam()));
  on_ranks(training, [&](Trainee& trainee) {
    train_at_own_pace(trainee, kSteps);
    ends[static_cast<size_t>(trainee.rank())] = trainee.finish();
  });
  for (const Flat& own : ends) {
    EXPECT_EQ(difference(own, ends[0]), "");
    expect_near(own, mean_of(alone(training, kSteps)));
  }
}

TEST_P(Async, WorksWithAccumulation) {
  const Training training{.algorithm = "async,sync_interval_ms=1", .ranks = GetParam(), .micro_batches = 3};
  ByRank ends(static_cast<size_t>(GetParam()));
  on_ranks(training, [&](Trainee& trainee) {
    train_at_own_pace(trainee, 50);
    ends[static_cast<size_t>(trainee.rank())] = trainee.finish();
  });
  for (const Flat& own : ends) expect_near(own, mean_of(alone(training, 50)));
}

TEST_P(Async, GoesOnAfterTheEnd) {
  const Training training{.algorithm = "async,sync_interval_ms=1", .ranks = GetParam()};
  ByRank ends(static_cast<size_t>(GetParam()));
  on_ranks(training, [&](Trainee& trainee) {
    trainee.steps(0, 20);
    trainee.finish();
    trainee.steps(20, 40);
    ends[static_cast<size_t>(trainee.rank())] = trainee.finish();
  });
  for (const Flat& own : ends) expect_near(own, mean_of(alone(training, 40)));
}

TEST_P(Async, AveragesGradientsInTheWarmUp) {
  const Training training{
      .algorithm = "async,warmup_steps=5,sync_interval_ms=1", .ranks = GetParam(), .steps = 12, .momentum = 0.5};
  const auto got = trained(training);
  Flat weights = first_weights(training);
  Sgd sgd(training);
  for (int step = 0; step < 5; ++step) {
    ByRank all;
    for (int rank = 0; rank < training.ranks; ++rank) all.push_back(gradients(training, rank, step));
    sgd.step(weights, mean_of(all));
    for (const Flat& own : got[static_cast<size_t>(step)]) ASSERT_EQ(difference(own, weights), "") << "step " << step;
  }
  EXPECT_NE(difference(got[5][0], got[5][1]), "") << "after the warm-up each rank learns from its own gradients";
  for (const Flat& own : got.back()) EXPECT_EQ(difference(own, got.back()[0]), "");
}

TEST_P(Async, GoesOnFromACheckpointInEitherPhase) {
  for (const int saved_at : {2, 10}) {
    const Training training{.algorithm = "async,warmup_steps=5,sync_interval_ms=1", .ranks = GetParam()};
    std::vector<std::pair<toy::ToyState, host::StrategyState>> saved(static_cast<size_t>(GetParam()));
    on_ranks(training, [&](Trainee& trainee) {
      trainee.steps(0, saved_at);
      trainee.runtime().pause(COHORT_PAUSE_CHECKPOINT);
      saved[static_cast<size_t>(trainee.rank())] = {trainee.model().state(), trainee.runtime().save_state()};
      trainee.finish();
    });
    ByRank first(static_cast<size_t>(GetParam())), ends(first);
    on_ranks(training, [&](Trainee& trainee) {
      const auto& [model, strategy] = saved[static_cast<size_t>(trainee.rank())];
      trainee.model().set_state(model);
      trainee.runtime().load_state(strategy, static_cast<uint64_t>(saved_at));
      if (trainee.engine().wants_gradients() != (saved_at < 5)) throw std::runtime_error("in the wrong phase");
      trainee.steps(saved_at, saved_at + 1);
      first[static_cast<size_t>(trainee.rank())] = trainee.weights();
      trainee.steps(saved_at + 1, 15);
      ends[static_cast<size_t>(trainee.rank())] = trainee.finish();
    });
    EXPECT_EQ(difference(first[0], first[1]).empty(), saved_at < 5);
    for (const Flat& own : ends) EXPECT_EQ(difference(own, ends[0]), "");
  }
}

TEST_P(Async, WarmsUpInEachTraining) {
  const Training training{.algorithm = "async,warmup_steps=3,sync_interval_ms=1", .ranks = GetParam()};
  for (const std::string& text : toy::run_ranks_to_failure(job_of(training), [&](toy::ToyRank& rank) {
         for (int fit = 0; fit < 2; ++fit) {
           Trainee trainee(rank, training);
           trainee.steps(0, 2);
           if (!trainee.engine().wants_gradients()) throw std::runtime_error("fit " + std::to_string(fit));
           trainee.steps(2, 6);
           trainee.finish();
         }
       })) {
    EXPECT_EQ(text, "");
  }
}

TEST_P(Async, LeavesTheWarmUpWithoutLosingGradientsOfAnotherOptimizer) {
  const Training training{.algorithm = "async,warmup_steps=2,sync_interval_ms=100000", .ranks = GetParam()};
  toy::run_ranks(job_of(training), [&](toy::ToyRank& rank) {
    toy::ToyModel model({{.name = "a"}, {.name = "b", .phase = 1}}, 0.0, 1.0);
    host::StepEngine& engine = rank.runtime.configure(model);
    const std::vector<std::vector<double>> first{{rank.rank + 1.0}, {}}, second{{}, {rank.rank + 1.0}};
    for (int step = 0; step < 2; ++step) {
      rank.backward(engine, model, first, true, 0);
      rank.backward(engine, model, second, true, 1);
      rank.update(engine, model, 0);
      rank.update(engine, model, 1);
    }
    EXPECT_FALSE(engine.wants_gradients());
    EXPECT_EQ(model.weights(0), std::vector{-1.0 - rank.world_size});
    EXPECT_EQ(model.weights(1), model.weights(0));
    rank.runtime.release_model(model);
  });
}

TEST_P(Async, ForgetsTheRoundOfWeightsThatOthersAreLoadedOver) {
  const Training training{.algorithm = "async,sync_interval_ms=1", .ranks = GetParam()};
  on_ranks(training, [&](Trainee& trainee) {
    const toy::ToyState good = trainee.model().state();
    const host::StrategyState strategy = trainee.runtime().save_state();
    toy::ToyState bad = good;
    for (auto& values : bad.weights) values.assign(values.size(), std::nan(""));
    trainee.model().set_state(bad);
    for (int step = 0; step < 3; ++step) {
      std::this_thread::sleep_for(3ms);
      trainee.step(step);  // begins a round
    }
    trainee.model().set_state(good);
    trainee.runtime().load_state(strategy, 0);
    trainee.step(0);
    for (const float weight : trainee.finish()) {
      if (!std::isfinite(weight)) throw std::runtime_error("a correction of the weights before was added");
    }
  });
}

TEST_P(Async, EndsWhenARankDies) {
  Training training{.algorithm = "async,sync_interval_ms=1", .ranks = GetParam()};
  auto job = job_of(training);
  job.timeout = 5s;
  const auto texts = toy::run_ranks_to_failure(job, [&](toy::ToyRank& rank) {
    Trainee trainee(rank, training);
    trainee.engine().vote_every(1'000'000);
    for (int step = 0; step < 100'000; ++step) {
      if (rank.rank == 1 && step == 30) throw std::runtime_error("given up");
      trainee.step(step);
      std::this_thread::sleep_for(1ms);
    }
  });
  EXPECT_THAT(texts[0], HasSubstr("rank 1"));
}

TEST(AsyncRefuses, Hierarchical) {
  EXPECT_THAT(failure_of({.algorithm = "async,hierarchical=true"}), HasSubstr("leave hierarchical out"));
}

}  // namespace
