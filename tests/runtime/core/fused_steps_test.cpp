// LibTorch's fused kernels, which the CPU has as well, beside torch::optim's own steps.
#include "optimizers/fused_steps.hpp"

#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/optim.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

namespace optim = torch::optim;
using Parameters = std::vector<at::Tensor>;
using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const Parameters&)>;

Parameters some_parameters(c10::ScalarType type = at::kFloat) {
  torch::manual_seed(5);
  Parameters made{torch::randn({7, 3}, type), torch::randn({1025}, type), torch::randn({}, type)};
  for (at::Tensor& one : made) one.set_requires_grad(true);
  return made;
}

void give_gradients(Parameters& parameters, int step) {
  for (at::Tensor& one : parameters) one.mutable_grad() = torch::cos(one.detach() * 3 + step);
}

int64_t steps_of(optim::Optimizer& optimizer, const at::Tensor& parameter) {
  return static_cast<optim::AdamParamState&>(*optimizer.state().at(parameter.unsafeGetTensorImpl())).step();
}

template <class Optimizer, class Options>
MakeOptimizer with(const Options& options) {
  return [=](const Parameters& parameters) { return std::make_unique<Optimizer>(parameters, options); };
}

/// Parameters and what steps them.
struct Stepped {
  explicit Stepped(const MakeOptimizer& make, c10::ScalarType type = at::kFloat)
      : parameters(some_parameters(type)), optimizer(make(parameters)) {}

  FusedSteps::Groups step(int number) {
    give_gradients(parameters, number);
    return fused.step(*optimizer, *optimizer_kind(*optimizer));
  }
  void step_alone(int number) {
    give_gradients(parameters, number);
    optimizer->step();
  }

  Parameters parameters;
  std::unique_ptr<optim::Optimizer> optimizer;
  FusedSteps fused;
};

void expect_close(const Stepped& one, const Stepped& other) {
  for (size_t i = 0; i < one.parameters.size(); ++i) {
    EXPECT_TRUE(torch::allclose(one.parameters[i], other.parameters[i], 1e-5, 1e-6)) << one.parameters[i].sizes();
  }
}

MakeOptimizer adam() {
  return with<optim::Adam>(optim::AdamOptions(0.05));
}

class FusedStepsOf : public testing::TestWithParam<MakeOptimizer> {};

INSTANTIATE_TEST_SUITE_P(
    Settings, FusedStepsOf,
    testing::Values(with<optim::SGD>(optim::SGDOptions(0.1)), with<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9)),
                    with<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).dampening(0.5).weight_decay(0.1)),
                    with<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).nesterov(true)), adam(),
                    with<optim::Adam>(optim::AdamOptions(0.05).betas({0.6, 0.8}).eps(1e-3).weight_decay(0.1)),
                    with<optim::Adam>(optim::AdamOptions(0.05).amsgrad(true)),
                    with<optim::AdamW>(optim::AdamWOptions(0.05).weight_decay(0.1)),
                    with<optim::AdamW>(optim::AdamWOptions(0.05).betas({0.6, 0.8}).amsgrad(true))));

TEST_P(FusedStepsOf, EqualTheOptimizersOwn) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    Stepped fused(GetParam(), type), alone(GetParam(), type);
    for (int number = 0; number < 6; ++number) {
      for (const auto& others : fused.step(number)) EXPECT_TRUE(others.empty());
      alone.step_alone(number);
    }
    expect_close(fused, alone);
  }
}

TEST_P(FusedStepsOf, TakeTurnsWithTheOptimizersOwn) {
  Stepped mixed(GetParam()), alone(GetParam());
  for (int number = 0; number < 6; ++number) {
    number % 3 == 1 ? mixed.step_alone(number) : static_cast<void>(mixed.step(number));
    alone.step_alone(number);
  }
  expect_close(mixed, alone);
}

TEST(FusedSteps, LeaveWhatTheKernelCannotTake) {
  Stepped stepped(adam());
  give_gradients(stepped.parameters, 0);
  at::Tensor& matrix = stepped.parameters[0];
  matrix.mutable_grad() = matrix.grad().t().contiguous().t();  // other strides
  stepped.parameters[2].mutable_grad().reset();
  const at::Tensor before = matrix.detach().clone();
  const auto others = stepped.fused.step(*stepped.optimizer, *optimizer_kind(*stepped.optimizer));
  ASSERT_EQ(others.at(0).size(), 1U);
  EXPECT_TRUE(others[0][0].is_same(matrix));
  EXPECT_TRUE(torch::equal(matrix, before));
  EXPECT_EQ(stepped.optimizer->state().size(), 1U) << "state of what was stepped alone";
}

TEST(FusedSteps, TakeAnyStrideOfOneElement) {
  const at::Tensor kernel = torch::randn({4, 3, 1, 1}).set_requires_grad(true);  // of a convolution
  optim::Adam optimizer(Parameters{kernel});
  kernel.mutable_grad() = torch::ones({12}).as_strided({4, 3, 1, 1}, {3, 1, 3, 3});
  ASSERT_NE(kernel.grad().strides(), kernel.strides());
  FusedSteps fused;
  EXPECT_TRUE(fused.step(optimizer, *optimizer_kind(optimizer)).at(0).empty());
}

TEST(FusedSteps, GoByTheCountOfTheState) {
  Stepped fused(adam()), alone(adam());
  for (Stepped* const one : {&fused, &alone}) {
    one == &fused ? static_cast<void>(one->step(0)) : one->step_alone(0);
    for (const at::Tensor& parameter : one->parameters) {
      static_cast<optim::AdamParamState&>(*one->optimizer->state().at(parameter.unsafeGetTensorImpl())).step(40);
    }
  }
  fused.step(1);
  alone.step_alone(1);
  expect_close(fused, alone);
  EXPECT_EQ(steps_of(*fused.optimizer, fused.parameters[1]), 41);
}

TEST(FusedSteps, CountTheStepsOfReplays) {
  Stepped stepped(adam());
  stepped.fused.set_capturing(true);
  EXPECT_THAT([&] { stepped.step(0); }, testing::ThrowsMessage<UserError>(testing::HasSubstr("give --graph more")));
  stepped.fused.set_capturing(false);
  stepped.step(1);
  stepped.fused.set_capturing(true);
  stepped.step(2);
  stepped.fused.set_capturing(false);
  const int64_t before = steps_of(*stepped.optimizer, stepped.parameters[0]);
  stepped.fused.count_replayed_step();
  for (const at::Tensor& parameter : stepped.parameters) {
    EXPECT_EQ(steps_of(*stepped.optimizer, parameter), before + 1);
  }
  static_cast<optim::AdamParamState&>(*stepped.optimizer->state().at(stepped.parameters[0].unsafeGetTensorImpl()))
      .step(0);
  EXPECT_THAT([&] { stepped.fused.count_replayed_step(); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("count of steps changed")));
}

TEST(FusedSteps, RefuseToCaptureWhatCountsOnTheHost) {
  Stepped stepped(adam());
  stepped.step(0);
  give_gradients(stepped.parameters, 1);
  stepped.parameters[0].mutable_grad() = stepped.parameters[0].grad().t().contiguous().t();
  stepped.fused.set_capturing(true);
  EXPECT_THAT(
      [&] { stepped.fused.step(*stepped.optimizer, *optimizer_kind(*stepped.optimizer)); },
      testing::ThrowsMessage<UserError>(testing::HasSubstr("[7, 3] are not stepped by LibTorch's fused kernel")));
}

}  // namespace
}  // namespace cohort
