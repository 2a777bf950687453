// Weights that were not registered in the module: found before a training goes on without them.
#include <gmock/gmock.h>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Two layers, of which the second may be forgotten; or the first one as well.
struct Forgetful final : ModuleFor<Forgetful> {
  Forgetful() { register_module("first", first); }
  Output training_step(const Batch& batch, int64_t) override {
    at::Tensor x = batch.tensor().unsqueeze(1);
    if (wants_input_gradient) x = x.clone().requires_grad_();
    at::Tensor loss = second(first(x)).square().mean();
    if (wants_input_gradient) {
      const auto gradient = torch::autograd::grad({loss}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
      loss = loss + (gradient.norm() - 1).square();
    }
    return loss;
  }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }

  torch::nn::Linear first{1, 3}, second{3, 2};
  bool wants_input_gradient = false;
};

std::string text_of(Module& net, int replicas = 1) {
  ScriptedRun run([&](Script& s) {
    s.options.max_epochs = 1;
    s.selection.replicas = replicas;
  });
  Numbers data(6);
  data.evaluation = {};
  RunRecord record;
  return error_text<UserError>([&] { Trainer(run.runtime(), record).fit(net, data); });
}

TEST(Unregistered, LayerIsNamedByItsShapes) {
  Forgetful net;
  EXPECT_THAT(text_of(net),
              AllOf(HasSubstr("no parameters of module"), HasSubstr("[2, 3]"), HasSubstr("register_module")));
}

TEST(Unregistered, LayerIsFoundWhereReplicasTrain) {
  Forgetful net;
  EXPECT_THAT(text_of(net, 2), HasSubstr("no parameters of module"));
}

TEST(Unregistered, FrozenLayerIsNoMistake) {
  Forgetful net;
  for (auto& parameter : net.second->parameters()) parameter.requires_grad_(false);
  EXPECT_EQ(text_of(net), "");
}

TEST(Unregistered, InputOfWhichAStepTakesTheGradientIsNoMistake) {
  Forgetful net;
  net.register_module("second", net.second);
  net.wants_input_gradient = true;
  EXPECT_EQ(text_of(net), "");
}

TEST(Unregistered, LayerIsFoundBesideAnInputWithGradient) {
  Forgetful net;
  net.wants_input_gradient = true;
  EXPECT_THAT(text_of(net), HasSubstr("no parameters of module"));
}

TEST(Unregistered, OptimizerWithoutParametersIsRefused) {
  struct Bare final : Module {
    Output training_step(const Batch&, int64_t) override { return fc->weight.sum(); }
    Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
    torch::nn::Linear fc{1, 1};
  };
  Bare net;
  EXPECT_THAT(text_of(net),
              AllOf(HasSubstr("optimizer 0 has no parameters; did you forget register_module"), HasSubstr("Bare")));
}

}  // namespace
}  // namespace cohort::testing
