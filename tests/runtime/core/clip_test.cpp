// Clipping beside the norm written out, where parameters have several types.
#include "gradients/clip.hpp"

#include <gtest/gtest.h>

#include <torch/types.h>

namespace cohort {
namespace {

TEST(Clip, TakesTheNormOverSeveralTypesInTheWidest) {
  const at::Tensor half = torch::ones({1}, torch::kFloat16), wide = torch::full({1}, 1e5F);  // above the greatest half
  clip_gradients({half, wide}, {.by = GradientClip::By::kNorm, .limit = 1.0});
  EXPECT_NEAR(wide.item<float>(), 1.0, 1e-4);
  EXPECT_NEAR(half.item<float>(), 1e-5, 1e-6);
}

}  // namespace
}  // namespace cohort
