// SyncBatchNorm beside LibTorch's batch normalization, in one process; tests/system has several ranks.
#include <gmock/gmock.h>

#include <array>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <cohort/sync_batch_norm.hpp>

#include "scripted_driver.hpp"
#include "small_training.hpp"

namespace cohort::testing {
namespace {

using ::testing::HasSubstr;

at::Tensor images(int64_t samples, int64_t seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  return torch::randn({samples, 3, 2, 4}, torch::kDouble) * 5 + 100;
}

/// Gives both layers the same weights, which are not the initial ones.
template <class Layer>
void prepare(Layer& layer) {
  layer->to(torch::kDouble);
  const at::NoGradGuard no_grad;
  layer->weight.copy_(torch::arange(3) + 0.5);
  layer->bias.copy_(torch::arange(3) - 1.0);
}

TEST(SyncBatchNorm, IsBatchNormWithoutOtherRanks) {
  SyncBatchNorm own(torch::nn::BatchNormOptions(3).momentum(0.3));
  torch::nn::BatchNorm2d reference(torch::nn::BatchNormOptions(3).momentum(0.3));
  prepare(own);
  prepare(reference);
  const at::Tensor x = images(4, 1);
  EXPECT_TRUE(torch::equal(own(x), reference(x)));
  EXPECT_TRUE(torch::equal(own->running_var, reference->running_var));
  own->eval();
  reference->eval();
  EXPECT_TRUE(torch::equal(own(x), reference(x)));
  EXPECT_EQ(own->named_buffers().keys(), reference->named_buffers().keys());
  EXPECT_THAT(error_text<UserError>([&] { own(torch::ones({3})); }), HasSubstr("[samples, channels, ...]"));
}

TEST(SyncBatchNorm, OfOneRankThatTalksToItselfIsBatchNorm) {
  SyncBatchNorm own(torch::nn::BatchNormOptions(3).momentum(std::nullopt));
  torch::nn::BatchNorm2d reference(torch::nn::BatchNormOptions(3).momentum(std::nullopt));
  prepare(own);
  prepare(reference);
  ScriptedRun run;
  const std::array<torch::nn::Module*, 1> modules{own.get()};
  const auto driver =
      make_scripted_driver(run.runtime(), run.script(), modules, torch::optim::SGD(own->parameters(), 1));
  own->synchronize(driver.get());
  for (const int64_t step : {1, 2}) {
    const at::Tensor x = images(4, step).requires_grad_(), y = x.detach().clone().requires_grad_();
    const at::Tensor scale = torch::randn_like(x);
    own->zero_grad();
    reference->zero_grad();
    (own(x) * scale).sum().backward();
    (reference(y) * scale).sum().backward();
    EXPECT_TRUE(torch::allclose(x.grad(), y.grad(), 1e-9, 1e-9));
    EXPECT_TRUE(torch::allclose(own->weight.grad(), reference->weight.grad(), 1e-9, 1e-9));
    EXPECT_TRUE(torch::allclose(own->bias.grad(), reference->bias.grad(), 1e-9, 1e-9));
  }
  EXPECT_TRUE(torch::allclose(own->running_mean, reference->running_mean, 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(own->running_var, reference->running_var, 1e-12, 1e-12));
  EXPECT_TRUE(torch::equal(own->num_batches_tracked, reference->num_batches_tracked));
}

struct Plain final : ModuleFor<Plain> {
  Plain() : w(register_parameter("w", torch::ones({1}))) {}
  Output training_step(const Batch& batch, int64_t) override { return (w * batch.tensor()).mean(); }
  Optimizers configure_optimizers() override { return torch::optim::SGD(parameters(), 0.1); }
  at::Tensor w;
};

TEST(SyncBatchNorm, IsRefusedForAModuleThatHasNone) {
  ScriptedRun run([](Script& s) {
    s.options.max_epochs = 1;
    s.options.sync_batchnorm = true;
  });
  Plain net;
  Numbers data(3);
  data.evaluation = {};
  RunRecord record;
  EXPECT_THAT(error_text<UserError>([&] { Trainer(run.runtime(), record).fit(net, data); }),
              HasSubstr("has no cohort::SyncBatchNorm; write it in place of torch::nn::BatchNorm1d"));
}

}  // namespace
}  // namespace cohort::testing
