// What strategies see and change of LibTorch's optimizers, beside the same optimizer left alone.
#include "optimizers/hosted_optimizers.hpp"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/optim.h>
#include <torch/types.h>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Property;
using testing::ThrowsMessage;

using Tensors = std::vector<at::Tensor>;
using Make = std::function<std::shared_ptr<torch::optim::Optimizer>(const Tensors&)>;

Tensors weights() {
  torch::manual_seed(3);
  return {torch::randn({3, 2}).set_requires_grad(true), torch::randn({4}).set_requires_grad(true)};
}

// Parameters with an optimizer, seen through the host.
struct Hosted {
  explicit Hosted(const Make& make) : parameters(weights()), optimizers(make(parameters)) {}
  Tensors parameters;
  std::vector<std::string> names{"fc.weight", "fc.bias"};
  Optimizers optimizers;
  HostedOptimizers port{optimizers, parameters, names};
  std::vector<std::vector<float>> memory{std::vector<float>(6), std::vector<float>(4)};

  void step(int number) {
    for (at::Tensor& parameter : parameters) parameter.mutable_grad() = torch::sin(parameter.detach() + number);
    port.step(0);
  }
  void move(const std::string& name) {
    const std::vector<void*> places{memory[0].data(), memory[1].data()};
    port.move_state(name, places);
  }
  void move_back(const std::string& name) { port.move_state(name, std::vector<void*>(2, nullptr)); }
};

Make sgd(double momentum, double dampening = 0) {
  return [=](const Tensors& parameters) {
    return std::make_shared<torch::optim::SGD>(parameters,
                                               torch::optim::SGDOptions(0.125).momentum(momentum).dampening(dampening));
  };
}
template <class Optimizer>
Make plain() {
  return [](const Tensors& parameters) { return std::make_shared<Optimizer>(parameters); };
}

void expect_equal(const Tensors& one, const Tensors& other) {
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], other[i])) << one[i] << other[i];
}

// An optimizer of a program's own.
class Custom : public torch::optim::SGD {
 public:
  using SGD::SGD;
};

TEST(HostedOptimizers, TellKindSettingsAndSteps) {
  Hosted adam([](const Tensors& parameters) {
    return std::make_shared<torch::optim::Adam>(parameters, torch::optim::AdamOptions(0.25).betas({0.5, 0.75}));
  });
  EXPECT_STREQ(adam.port.kind(0), "adam");
  EXPECT_EQ(adam.port.hyper(1, "lr"), 0.25);
  EXPECT_EQ(adam.port.hyper(1, "beta2"), 0.75);
  EXPECT_EQ(adam.port.hyper(1, "amsgrad"), 0.0);
  EXPECT_EQ(adam.port.hyper(1, "momentum"), std::nullopt);
  EXPECT_EQ(adam.port.counted_steps(0), 0);
  adam.step(0);
  EXPECT_EQ(adam.port.counted_steps(0), 1);
  adam.port.set_counted_steps(0, 9);
  EXPECT_EQ(adam.port.counted_steps(0), 9);
  EXPECT_EQ(adam.port.counted_steps(1), 1);

  Hosted custom(
      [](const Tensors& parameters) { return std::make_shared<Custom>(parameters, torch::optim::SGDOptions(0.5)); });
  EXPECT_STREQ(custom.port.kind(0), "");
  EXPECT_EQ(custom.port.hyper(0, "lr"), std::nullopt);
  EXPECT_EQ(custom.port.counted_steps(0), std::nullopt);
}

TEST(HostedOptimizers, ShowAllSettingsForRanksToCompare) {
  Hosted adam([](const Tensors& parameters) {
    return std::make_shared<torch::optim::Adam>(
        std::vector<torch::optim::OptimizerParamGroup>{
            {{parameters[0]}, std::make_unique<torch::optim::AdamOptions>(0.1)},
            {{parameters[1]}, std::make_unique<torch::optim::AdamOptions>(0.3)}},
        torch::optim::AdamOptions(0.1));
  });
  const std::string text = adam.port.settings();
  EXPECT_THAT(text, HasSubstr("optimizer 0, group 0: lr = 0.1\n"));
  EXPECT_THAT(text, HasSubstr("optimizer 0, group 1: lr = 0.3\n"));
  EXPECT_THAT(text, HasSubstr("optimizer 0, group 1: beta2 = 0.999\n"));
  EXPECT_THAT(text, HasSubstr("optimizer 0, group 1: amsgrad = false\n"));
  EXPECT_THAT(text, HasSubstr("fc.bias is in group 1\n"));

  Hosted custom(
      [](const Tensors& parameters) { return std::make_shared<Custom>(parameters, torch::optim::SGDOptions(0.5)); });
  EXPECT_THAT(custom.port.settings(), HasSubstr("optimizer 0, group 0: lr = 0.5\n"));
}

TEST(HostedOptimizers, RefuseAParameterThatIsGivenTwice) {
  const auto twice = [](const Tensors& parameters) {
    return std::make_shared<torch::optim::SGD>(Tensors{parameters[0], parameters[1], parameters[1]},
                                               torch::optim::SGDOptions(0.5));
  };
  EXPECT_THAT([&] { Hosted hosted(twice); },
              ThrowsMessage<UserError>(HasSubstr("'fc.bias' is given to the optimizers twice")));
}

TEST(HostedOptimizers, ScaleTheLearningRateInTheStepAlone) {
  for (const double factor : {1.0, 3.0}) {
    Hosted scaled(sgd(0));
    scaled.port.set_lr_factor(0, factor);
    const at::Tensor before = scaled.parameters[0].detach().clone();
    scaled.step(0);
    const at::Tensor gradient = torch::sin(before);
    EXPECT_TRUE(torch::allclose(scaled.parameters[0], before - factor * 0.125 * gradient));
    EXPECT_EQ(scaled.optimizers[0].param_groups()[0].options().get_lr(), 0.125);
  }
}

TEST(HostedOptimizers, ScaleAnOptimizerOfAProgramsOwnToo) {
  Hosted custom(
      [](const Tensors& parameters) { return std::make_shared<Custom>(parameters, torch::optim::SGDOptions(0.5)); });
  const at::Tensor before = custom.parameters[1].detach().clone();
  custom.port.set_lr_factor(0, 2);
  custom.step(0);
  EXPECT_TRUE(torch::allclose(custom.parameters[1], before - torch::sin(before)));
}

struct Case {
  const char* state;
  Make make;
};

TEST(HostedOptimizers, StepWithStateInOtherMemoryAsIfItHadNotMoved) {
  const Case cases[] = {{"momentum_buffer", sgd(0.9)},
                        {"exp_avg", plain<torch::optim::Adam>()},
                        {"exp_avg_sq", plain<torch::optim::AdamW>()},
                        {"square_avg", plain<torch::optim::RMSprop>()},
                        {"sum", plain<torch::optim::Adagrad>()}};
  for (const auto& [state, make] : cases) {
    for (const int moved_at : {0, 2}) {
      SCOPED_TRACE(state);
      Hosted moved(make), alone(make);
      for (int step = 0; step < 6; ++step) {
        if (step == moved_at) moved.move(state);
        if (step == 4) moved.move_back(state);
        const float before = moved.memory[1][0];
        moved.step(step);
        alone.step(step);
        EXPECT_EQ(moved.memory[1][0] != before, step >= moved_at && step < 4) << "step " << step;
      }
      expect_equal(moved.parameters, alone.parameters);
    }
  }
}

Make in_two_groups() {
  return [](const Tensors& parameters) {
    return std::make_shared<torch::optim::AdamW>(std::vector<torch::optim::OptimizerParamGroup>{
        {{parameters[0]}, std::make_unique<torch::optim::AdamWOptions>(0.1)},
        {{parameters[1]}, std::make_unique<torch::optim::AdamWOptions>(0.3)}});
  };
}

TEST(HostedOptimizers, StepSomeOfTheirParametersAsTheyStepAll) {
  for (const auto& make : {sgd(0), sgd(0.9, 0.5), plain<torch::optim::Adam>(), plain<torch::optim::RMSprop>(),
                           plain<torch::optim::Adagrad>(), in_two_groups()}) {
    Hosted whole(make), parts(make), half(make);
    const Tensors before = weights();
    for (int number = 0; number < 3; ++number) {
      whole.step(number);
      for (Hosted* const hosted : {&parts, &half}) {
        for (at::Tensor& own : hosted->parameters) own.mutable_grad() = torch::sin(own.detach() + number);
        EXPECT_NO_THROW(hosted->port.check_partial(0));
        hosted->port.step(0, std::vector<uint32_t>{1});
      }
      parts.port.step(0, std::vector<uint32_t>{0});
    }
    expect_equal(parts.parameters, whole.parameters);
    expect_equal({half.parameters[0], half.parameters[1]}, {before[0], whole.parameters[1]});
    EXPECT_EQ(half.optimizers[0].param_groups()[0].params().size(),
              whole.optimizers[0].param_groups()[0].params().size());
  }
}

TEST(HostedOptimizers, KeepStateOfWhatTheyStepAlone) {
  Hosted adam(plain<torch::optim::AdamW>());
  for (at::Tensor& own : adam.parameters) own.mutable_grad() = torch::ones_like(own);
  adam.port.step(0, std::vector<uint32_t>{1});
  EXPECT_EQ(adam.port.with_state(), std::vector<uint32_t>{1});
}

TEST(HostedOptimizers, RefuseStepsOfSomeParametersIfUnknown) {
  Hosted custom(
      [](const Tensors& parameters) { return std::make_shared<Custom>(parameters, torch::optim::SGDOptions(0.5)); });
  Hosted lbfgs(plain<torch::optim::LBFGS>());
  EXPECT_THAT([&] { custom.port.check_partial(0); }, ThrowsMessage<UserError>(HasSubstr("Custom")));
  EXPECT_THAT([&] { lbfgs.port.check_partial(0); },
              ThrowsMessage<UserError>(HasSubstr("choose SGD, Adam, AdamW, RMSprop or Adagrad, or another strategy")));
}

TEST(HostedOptimizers, PutRestoredStateBackWhereItWas) {
  Hosted hosted(plain<torch::optim::Adam>());
  hosted.move("exp_avg");
  hosted.step(0);
  hosted.optimizers[0].state().clear();  // a checkpoint from before the first step
  hosted.port.restored();
  EXPECT_EQ(hosted.memory[0], std::vector<float>(6, 0.0f));
  EXPECT_EQ(hosted.port.counted_steps(0), 0);
  auto fresh = std::make_unique<torch::optim::AdamParamState>();
  fresh->step(7).exp_avg(torch::full({3, 2}, 5.0)).exp_avg_sq(torch::ones({3, 2}));
  hosted.optimizers[0].state()[hosted.parameters[0].unsafeGetTensorImpl()] = std::move(fresh);
  hosted.port.restored();
  EXPECT_EQ(hosted.memory[0], std::vector<float>(6, 5.0f));
  hosted.step(1);
  EXPECT_NE(hosted.memory[0][0], 5.0f);
  EXPECT_EQ(hosted.port.counted_steps(0), 8);
}

TEST(HostedOptimizers, TakeTheShapeOfAnothersState) {
  for (const auto& make : {sgd(0.9), sgd(0), plain<torch::optim::AdamW>(), plain<torch::optim::Adagrad>()}) {
    Hosted one(make), other(make);
    one.step(0);
    one.step(1);
    const auto kept = one.port.with_state();
    const std::string shape = one.port.state_shape(kept);
    EXPECT_EQ(other.port.take_state_shape(shape), kept);
    EXPECT_EQ(other.port.state_shape(kept), shape);
    const auto from = one.port.state_tensors(kept), to = other.port.state_tensors(kept);
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(from[i].nbytes, to[i].nbytes);
      std::memcpy(to[i].data, from[i].data, from[i].nbytes);
      other.parameters[to[i].id].set_data(one.parameters[to[i].id].detach().clone());
    }
    if (from.empty()) continue;
    one.step(2);
    other.step(2);
    expect_equal(one.parameters, other.parameters);
  }
  Hosted fresh(sgd(0.9)), used(sgd(0.9));
  EXPECT_TRUE(fresh.port.with_state().empty());
  EXPECT_EQ(fresh.port.state_shape({}), "");
  used.step(0);
  EXPECT_TRUE(used.port.take_state_shape("").empty());
  used.port.forget_state(used.port.with_state());
  EXPECT_TRUE(used.port.with_state().empty());
}

TEST(HostedOptimizers, RefuseStateThatIsNotKept) {
  const auto refusal = [](Hosted& hosted, const char* state) { return [&hosted, state] { hosted.move(state); }; };
  Hosted adam(plain<torch::optim::Adam>()), without(sgd(0)), damped(sgd(0.9, 0.5));
  EXPECT_THAT(refusal(adam, "momentum_buffer"),
              ThrowsMessage<UserError>(HasSubstr("'momentum_buffer' of the optimizer of 'fc.weight', and Adam")));
  EXPECT_THAT(refusal(adam, "max_exp_avg_sq"), ThrowsMessage<UserError>(HasSubstr("keeps none")));
  EXPECT_THAT(refusal(without, "momentum_buffer"), ThrowsMessage<UserError>(HasSubstr("SGD with these settings")));
  EXPECT_THAT(refusal(damped, "momentum_buffer"), ThrowsMessage<UserError>(HasSubstr("keeps none")));
  EXPECT_THAT([&] { without.port.set_counted_steps(0, 1); }, ThrowsMessage<UserError>(HasSubstr("'step'")));
  Hosted partly([](const Tensors& parameters) { return std::make_shared<torch::optim::Adam>(Tensors{parameters[0]}); });
  EXPECT_THAT(refusal(partly, "exp_avg"),
              ThrowsMessage<UserError>(HasSubstr("'fc.bias' requires a gradient and belongs to no optimizer")));
}

TEST(HostedOptimizers, RefuseToTrainWhatTheModuleDoesNotHold) {
  const auto with = [](bool trained) {
    return [trained] {
      Hosted([trained](const Tensors& parameters) {
        const at::Tensor beside = torch::zeros({2, 3}).set_requires_grad(trained);
        return std::make_shared<torch::optim::SGD>(Tensors{parameters[0], beside}, 0.1);
      });
    };
  };
  EXPECT_THAT(with(true),
              ThrowsMessage<UserError>(HasSubstr("a tensor of shape [2, 3] that the module does not hold")));
  EXPECT_NO_THROW(with(false)());
}

TEST(HostedOptimizers, RefuseSparseGradientsByKind) {
  const auto sparse = [](Hosted& hosted) {
    for (at::Tensor& parameter : hosted.parameters) parameter.mutable_grad() = torch::ones_like(parameter).to_sparse();
    hosted.port.step(0);
  };
  Hosted plain(sgd(0));
  EXPECT_NO_THROW(sparse(plain));
  const std::vector<Make> kinds{[](const Tensors& tensors) { return std::make_shared<torch::optim::Adam>(tensors); },
                                [](const Tensors& tensors) { return std::make_shared<torch::optim::AdamW>(tensors); },
                                [](const Tensors& tensors) { return std::make_shared<torch::optim::RMSprop>(tensors); },
                                [](const Tensors& tensors) {
                                  return std::make_shared<torch::optim::Adagrad>(
                                      tensors, torch::optim::AdagradOptions(0.1).weight_decay(0.1));
                                }};
  for (const Make& make : kinds) {
    Hosted hosted(make);
    EXPECT_THAT([&] { sparse(hosted); },
                ThrowsMessage<UserError>(testing::AllOf(
                    HasSubstr("'fc.weight' has a sparse gradient, which this optimizer cannot step with"),
                    HasSubstr("sparse gradients); make the Embedding with sparse(false), or choose SGD"))));
  }
}

}  // namespace
}  // namespace cohort
