#include <cohort/qadam.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cohort/host/error.hpp>

#include "optimizers/hosted_optimizers.hpp"

namespace {

using ::testing::HasSubstr;

at::Tensor after_steps(torch::optim::Optimizer& optimizer, at::Tensor weight) {
  torch::manual_seed(3);
  for (int i = 0; i < 10; ++i) {
    weight.mutable_grad() = torch::randn_like(weight);
    optimizer.step();
  }
  return weight.detach();
}

TEST(QAdam, ByItselfIsAdam) {
  const auto options = torch::optim::AdamOptions(0.01).betas({0.8, 0.99}).weight_decay(0.1);
  const auto one = torch::ones({5}, torch::requires_grad()), other = torch::ones({5}, torch::requires_grad());
  cohort::QAdam qadam({one}, options, 3);
  torch::optim::Adam adam(std::vector{other}, options);
  EXPECT_TRUE(torch::equal(after_steps(qadam, one), after_steps(adam, other)));
}

TEST(QAdam, TellsTheStrategyItsStepsOfWarmUp) {
  const std::vector<at::Tensor> parameters{torch::ones({5}, torch::requires_grad())};
  const std::vector<std::string> names{"weight"};
  const cohort::Optimizers qadam = cohort::QAdam(parameters, 0.01, 7), adam = torch::optim::Adam(parameters, 0.01);
  cohort::HostedOptimizers hosted(qadam, parameters, names), plain(adam, parameters, names);
  EXPECT_STREQ(hosted.kind(0), "adam");
  EXPECT_EQ(hosted.hyper(0, "warmup_steps"), 7.0);
  EXPECT_EQ(hosted.hyper(0, "lr"), 0.01);
  EXPECT_EQ(plain.hyper(0, "warmup_steps"), std::nullopt);
}

TEST(QAdam, NeedsAStepOfWarmUp) {
  for (const int64_t steps : {0, -1}) {
    try {
      cohort::QAdam({torch::ones({1}, torch::requires_grad())}, 0.01, steps);
      FAIL() << steps << " was taken";
    } catch (const cohort::UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("give 1 or more"));
    }
  }
}

}  // namespace
