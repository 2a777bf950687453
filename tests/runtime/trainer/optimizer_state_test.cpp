#include "checkpoint/optimizer_state.hpp"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include "error_text.hpp"

namespace cohort {
namespace {

namespace optim = torch::optim;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct TwoOutputs final : torch::nn::Module {
  TwoOutputs() : fc(register_module("fc", torch::nn::Linear(3, 2))) {
    const at::NoGradGuard no_grad;
    for (auto& p : parameters()) p.fill_(0.5);
  }
  torch::nn::Linear fc;
};

void take_steps(TwoOutputs& net, optim::Optimizer& optimizer, int first, int last) {
  for (int step = first; step < last; ++step) {
    optimizer.zero_grad();
    const auto loss = (net.fc(torch::full({3}, 0.3 + step)) - 1).pow(2).sum();
    loss.backward();
    optimizer.step([&] { return loss; });
  }
}

TensorIndex index_of(const NamedTensors& tensors) {
  TensorIndex index;
  for (const auto& [name, tensor] : tensors) index.emplace(name, tensor.clone());
  return index;
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

using Make = std::function<std::unique_ptr<optim::Optimizer>(TwoOutputs&)>;

template <class Optimizer, class Options>
Make making(const Options& options) {
  return [=](TwoOutputs& net) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<Optimizer>(net.parameters(), options);
  };
}

/// Trains six steps, and three with three more by a fresh optimizer that was given the first one's state.
void expect_equal_bits(const Make& make) {
  TwoOutputs whole, first;
  const auto uninterrupted = make(whole), stopped = make(first);
  take_steps(whole, *uninterrupted, 0, 6);
  take_steps(first, *stopped, 0, 3);
  for (auto& group : stopped->param_groups()) group.options().set_lr(0.01);  // as a schedule does

  TwoOutputs second;
  {
    const at::NoGradGuard no_grad;
    second.fc->weight.copy_(first.fc->weight);
    second.fc->bias.copy_(first.fc->bias);
  }
  const auto continued = make(second);
  const auto names = parameter_names(first), second_names = parameter_names(second);
  const TensorIndex tensors = index_of(optimizer_tensors(*stopped, names, "optimizer."));
  const OptimizerSettings settings = optimizer_settings(*stopped, names);
  check_optimizer(*continued, second_names, "optimizer.", settings, tensors, "file");
  restore_optimizer(*continued, second_names, "optimizer.", settings, tensors);
  restore_optimizer(*continued, second_names, "optimizer.", settings, tensors);  // once more changes nothing
  EXPECT_EQ(optimizer_settings(*continued, second_names), settings);
  EXPECT_EQ(continued->param_groups()[0].options().get_lr(), 0.01);

  take_steps(first, *stopped, 3, 6);
  take_steps(second, *continued, 3, 6);
  EXPECT_TRUE(torch::equal(second.fc->weight, first.fc->weight));
  EXPECT_TRUE(torch::equal(second.fc->bias, first.fc->bias));
  EXPECT_FALSE(torch::equal(first.fc->weight, whole.fc->weight)) << "the learning rate had no effect";
}

TEST(OptimizerState, OfEveryKindGoesOnBitByBit) {
  expect_equal_bits(making<optim::SGD>(optim::SGDOptions(0.1)));
  expect_equal_bits(making<optim::SGD>(optim::SGDOptions(0.1).momentum(0.9).nesterov(true)));
  expect_equal_bits(making<optim::Adam>(optim::AdamOptions(0.1)));
  expect_equal_bits(making<optim::Adam>(optim::AdamOptions(0.1).amsgrad(true).betas({0.8, 0.9})));
  expect_equal_bits(making<optim::AdamW>(optim::AdamWOptions(0.1).weight_decay(0.1)));
  expect_equal_bits(making<optim::RMSprop>(optim::RMSpropOptions(0.1).momentum(0.5).centered(true)));
  expect_equal_bits(making<optim::Adagrad>(optim::AdagradOptions(0.1).lr_decay(0.1)));
}

TEST(OptimizerState, HasReadableNames) {
  TwoOutputs net;
  optim::Adam adam(net.parameters(), 0.1);
  EXPECT_TRUE(optimizer_tensors(adam, parameter_names(net), "optimizer.").empty());
  take_steps(net, adam, 0, 2);
  const auto tensors = optimizer_tensors(adam, parameter_names(net), "optimizer.");
  EXPECT_THAT(names_of(tensors),
              ElementsAre("optimizer.step.fc.weight", "optimizer.exp_avg.fc.weight", "optimizer.exp_avg_sq.fc.weight",
                          "optimizer.step.fc.bias", "optimizer.exp_avg.fc.bias", "optimizer.exp_avg_sq.fc.bias"));
  EXPECT_EQ(tensors[0].second.item<int64_t>(), 2);
  EXPECT_EQ(optimizer_prefix(0, 1), "optimizer.");
  EXPECT_EQ(optimizer_prefix(1, 2), "optimizer.1.");
}

/// Not exactly an Adam: it might keep more.
struct OwnAdam final : optim::Adam {
  using Adam::Adam;
};

TEST(OptimizerState, OfAnotherOptimizerGoesThroughItsOwnArchive) {
  expect_equal_bits(making<OwnAdam>(optim::AdamOptions(0.1)));
  TwoOutputs net;
  OwnAdam own(net.parameters(), optim::AdamOptions(0.1));
  take_steps(net, own, 0, 1);
  EXPECT_THAT(names_of(optimizer_tensors(own, parameter_names(net), "optimizer.")), ElementsAre("optimizer.archive"));
}

TEST(OptimizerState, ThatLibTorchCannotWriteIsNamed) {
  TwoOutputs net;
  optim::LBFGS lbfgs(net.parameters(), optim::LBFGSOptions(0.1));
  take_steps(net, lbfgs, 0, 2);
  EXPECT_THAT(error_text<UserError>([&] { optimizer_tensors(lbfgs, parameter_names(net), "optimizer."); }),
              HasSubstr("torch::optim::LBFGS cannot be put into a checkpoint"));
}

struct Forgetful final : optim::Optimizer {
  explicit Forgetful(std::vector<at::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<optim::SGDOptions>(0.1)) {}
  at::Tensor step(LossClosure) override {
    state()[param_groups()[0].params()[0].unsafeGetTensorImpl()] = std::make_unique<optim::SGDParamState>();
    return {};
  }
};

TEST(OptimizerState, ThatAnOwnOptimizerCannotSaveIsNotLostInSilence) {
  TwoOutputs net;
  Forgetful forgetful(net.parameters());
  EXPECT_EQ(optimizer_tensors(forgetful, parameter_names(net), "optimizer.").size(), 1U);  // nothing is kept yet
  forgetful.step({});
  EXPECT_THAT(error_text<UserError>([&] { optimizer_tensors(forgetful, parameter_names(net), "optimizer."); }),
              HasSubstr("does not override save and load"));
}

TEST(OptimizerState, OfAnotherKindGroupOrShapeIsRefused) {
  TwoOutputs net;
  const auto names = parameter_names(net);
  optim::Adam adam(net.parameters(), 0.1);
  take_steps(net, adam, 0, 1);
  TensorIndex tensors = index_of(optimizer_tensors(adam, names, "optimizer."));
  const OptimizerSettings settings = optimizer_settings(adam, names);
  const auto message = [&](optim::Optimizer& optimizer, const OptimizerSettings& saved) {
    return error_text<UserError>([&] { check_optimizer(optimizer, names, "optimizer.", saved, tensors, "ckpt"); });
  };
  optim::SGD sgd(net.parameters(), 0.1);
  EXPECT_THAT(message(sgd, settings),
              HasSubstr("ckpt does not fit the program's optimizer: it holds the state of Adam, not of SGD"));
  OptimizerSettings changed = settings;
  changed.groups.push_back({});
  EXPECT_THAT(message(adam, changed), HasSubstr("2 groups of parameters, the program 1"));
  changed = settings;
  changed.groups[0].parameters[0] = "fc.other";
  EXPECT_THAT(message(adam, changed), HasSubstr("group 0"));
  changed = settings;
  changed.groups[0].options.erase("beta1");
  EXPECT_THAT(message(adam, changed), HasSubstr("no setting 'beta1'"));
  tensors["optimizer.exp_avg.fc.bias"] = torch::zeros({5});
  EXPECT_THAT(message(adam, settings), HasSubstr("'optimizer.exp_avg.fc.bias' has shape [5]"));
  tensors["optimizer.exp_avg.fc.bias"] = torch::zeros({2});
  tensors["optimizer.step.fc.bias"] = torch::zeros({2}, torch::kLong);
  EXPECT_THAT(message(adam, settings), HasSubstr("'optimizer.step.fc.bias'"));
}

}  // namespace
}  // namespace cohort
