#include <random>

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cohort/host/error.hpp>
#include <cohort/loss_scale.hpp>

namespace cohort {
namespace {

// LibTorch's own operator is the reference.
TEST(LossScale, FollowsTheUpdateOfTorch) {
  std::minstd_rand random(1);
  LossScale scale;
  torch::Tensor factor = torch::full({1}, 65536.0F), finite_steps = torch::zeros({1}, torch::kInt);
  uint64_t skipped = 0;
  for (int step = 0; step < 30'000; ++step) {
    const bool overflow = random() % 2500 == 0;
    skipped += overflow ? 1 : 0;
    scale.update(overflow);
    at::_amp_update_scale_(factor, finite_steps, torch::full({1}, overflow ? 1.0F : 0.0F), 2.0, 0.5, 2000);
    ASSERT_EQ(scale.factor, factor.item<float>()) << step;
    ASSERT_EQ(scale.finite_steps, finite_steps.item<int>()) << step;
  }
  EXPECT_EQ(scale.skipped, skipped);
  EXPECT_GT(skipped, 5U);
}

TEST(LossScale, StopsAtTheGreatestFloat) {
  LossScale scale{.factor = 0x1p127F, .finite_steps = 1999};
  scale.update(false);
  EXPECT_EQ(scale.factor, 0x1p127F);
}

TEST(LossScale, EndsTrainingBelowOne) {
  LossScale scale{.factor = 2};
  scale.update(true);
  EXPECT_EQ(scale.factor, 1);
  EXPECT_THROW(scale.update(true), TrainingFailed);
}

}  // namespace
}  // namespace cohort
