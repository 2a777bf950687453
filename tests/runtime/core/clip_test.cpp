// Clipping beside the norm written out, where parameters have several types.
#include "gradients/clip.hpp"

#include <gtest/gtest.h>

#include <torch/types.h>

namespace cohort {
namespace {

TEST(Clip, TakesTheNormOfAllGradientsTogether) {
  const at::Tensor a = torch::full({1}, 3.0), b = torch::full({1}, 4.0);  // of norm 5
  clip_gradients({a, b}, {.by = GradientClip::By::kNorm, .limit = 2.5});
  EXPECT_NEAR(a.item<float>(), 1.5, 1e-5);
  EXPECT_NEAR(b.item<float>(), 2.0, 1e-5);
}

TEST(Clip, TakesTheNormOverSeveralTypesInTheWidest) {
  const at::Tensor half = torch::ones({1}, torch::kFloat16), wide = torch::full({1}, 1e5F);  // above the greatest half
  clip_gradients({half, wide}, {.by = GradientClip::By::kNorm, .limit = 1.0});
  EXPECT_NEAR(wide.item<float>(), 1.0, 1e-4);
  EXPECT_NEAR(half.item<float>(), 1e-5, 1e-6);
}

}  // namespace
}  // namespace cohort
