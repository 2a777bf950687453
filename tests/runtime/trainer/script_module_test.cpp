// A TorchScript model as a part of a module; one that Python has written is in tests/system.
#include <gmock/gmock.h>

#include <cohort/script_module.hpp>

#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

torch::jit::Module script() {
  torch::jit::Module inner("Inner");
  inner.register_parameter("weight", torch::full({1}, 2.0F, torch::requires_grad()), /*is_buffer=*/false);
  inner.register_buffer("calls", torch::zeros({1}));
  inner.define(R"(
    def forward(self, x):
      self.calls.add_(1)
      return self.weight * x
  )");
  torch::jit::Module outer("Outer");
  outer.register_attribute("training", c10::BoolType::get(), true);  // which torch.jit.script writes into every script
  outer.register_module("inner", inner);
  outer.register_parameter("bias", torch::full({1}, 1.0F, torch::requires_grad()), /*is_buffer=*/false);
  outer.define(R"(
    def forward(self, x):
      return self.inner.forward(x) + self.bias
  )");
  return outer;
}

struct Wrapping final : ModuleFor<Wrapping> {
  Wrapping() : body(register_module("body", std::make_shared<ScriptModule>(script()))) {}
  Output training_step(const Batch& batch, int64_t) override { return body->forward(batch.tensor()).square().mean(); }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  std::shared_ptr<ScriptModule> body;
};

TEST(ScriptModule, HasTheScriptsTensorsUnderTheirNames) {
  const Wrapping net;
  EXPECT_THAT(net.named_parameters().keys(), ElementsAre("body.bias", "body.inner.weight"));
  EXPECT_THAT(net.named_buffers().keys(), ElementsAre("body.inner.calls"));
}

TEST(ScriptModule, IsTrained) {
  ScriptedRun run([](Script& s) { s.options.max_epochs = 1; });
  Wrapping net;
  Numbers data(3);
  data.evaluation = {};
  RunRecord record;
  Trainer(run.runtime(), record).fit(net, data);
  // One step by hand: x = 0, 1, 2 (divided by 17), y = 2 x + 1, loss = mean(y^2).
  double weight = 2, bias = 1;
  double of_weight = 0, of_bias = 0;
  for (const double x : {0.0, 1.0 / 17, 2.0 / 17}) {
    of_weight += 2 * (weight * x + bias) * x / 3;
    of_bias += 2 * (weight * x + bias) / 3;
  }
  const auto trained = net.body->script().attr("inner").toModule().attr("weight").toTensor();
  EXPECT_NEAR(trained.item<double>(), weight - 0.1 * of_weight, 1e-6);
  EXPECT_NEAR(net.body->script().attr("bias").toTensor().item<double>(), bias - 0.1 * of_bias, 1e-6);
}

TEST(ScriptModule, FollowsTheMode) {
  Wrapping net;
  net.eval();
  EXPECT_FALSE(net.body->script().is_training());
  net.train();
  EXPECT_TRUE(net.body->script().is_training());
}

TEST(ScriptModule, SaysWhichFileIsNone) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "model.pt";
  std::ofstream(file) << "no";
  EXPECT_THAT(error_text<UserError>([&] { ScriptModule read(file); }),
              HasSubstr(file.string() + " is not a file of torch.jit.save"));
}

}  // namespace
}  // namespace cohort::testing
