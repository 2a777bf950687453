// Factors of the learning rate that several layers have set.
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddp_job.hpp"
#include "rank/rank_state.hpp"

namespace cohort::toy {
namespace {

using Values = std::vector<double>;

TEST(LrFactors, AreOneUntilTheyAreSet) {
  EXPECT_EQ(host::LrFactors().product(0), 1.0);
}

TEST(LrFactors, MultiplyOverTheLayersOfAPhase) {
  host::LrFactors factors;
  factors.set({0, "a"}, 2);
  factors.set({0, "b"}, 3);
  factors.set({1, "a"}, 5);
  EXPECT_EQ(factors.product(0), 6.0);
  EXPECT_EQ(factors.product(1), 5.0);
  EXPECT_EQ(factors.product(2), 1.0);
  EXPECT_EQ(factors.product_with({0, "a"}, 7), 21.0) << "in place of its own";
  EXPECT_EQ(factors.product_with({0, "c"}, 7), 42.0);
  EXPECT_EQ(factors.product(0), 6.0) << "asking changes nothing";
  factors.set({0, "a"}, 1);
  EXPECT_EQ(factors.product(0), 3.0);
}

ToyJob factor_job(std::vector<Spec> layers) {
  ToyJob job = ddp_job(2);
  job.layers = std::move(layers);
  return job;
}

/// Trains a weight of 0 by a gradient of 1, and returns the weight and the factor that the layer has seen.
Values train(ToyRank& rank, double learning_rate, int steps) {
  ToyModel model({{"a", 1}}, 0.0, ToyOptimizer{.learning_rate = learning_rate});
  host::StepEngine& engine = rank.runtime.configure(model);
  for (int step = 0; step < steps; ++step) rank.step(engine, model, std::vector<Values>{{1.0}});
  const Values seen{model.weights(0)[0], rank.runtime.strategy_metrics().at("lr_factor")};
  EXPECT_EQ(model.learning_rate(), learning_rate) << "no factor is part of the rate";
  rank.runtime.release_model(model);
  return seen;
}

TEST(ALearningRateFactor, OfOneLayerReplacesItsEarlierOne) {
  run_ranks(factor_job({Spec("looks").set("factor", "1.5")}), [](ToyRank& rank) {
    EXPECT_EQ(train(rank, 0.5, 2), (Values{-2 * 0.5 * 1.5, 1.5}));
  });
}

// services sets the number of ranks.
TEST(ALearningRateFactor, MultipliesThatOfAnotherLayer) {
  const std::vector<Spec> layers{Spec("services").set("does", "scale"), Spec("looks").set("factor", "1.5")};
  run_ranks(factor_job(layers), [](ToyRank& rank) {
    EXPECT_EQ(train(rank, 0.5, 2), (Values{-2 * 0.5 * 2 * 1.5, 3.0}));
  });
}

TEST(ALearningRateFactor, IsForgottenBeforeTheNextTraining) {
  run_ranks(factor_job({Spec("looks").set("factor", "4").set("trainings", "1")}), [](ToyRank& rank) {
    EXPECT_EQ(train(rank, 0.5, 1), (Values{-0.5 * 4, 4.0}));
    EXPECT_EQ(train(rank, 0.5, 1), (Values{-0.5, 1.0}));
  });
}

}  // namespace
}  // namespace cohort::toy
