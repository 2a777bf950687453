// Clipping beside the norm written out, where parameters have several types.
#include "gradients/clip.hpp"

#include <limits>

#include <gtest/gtest.h>

#include <torch/types.h>

namespace cohort {
namespace {

TEST(Clip, TakesTheNormOfAllGradientsTogether) {
  const at::Tensor a = torch::full({1}, 3.0), b = torch::full({1}, 4.0);  // of norm 5
  clip_gradients({a, b}, {sizeof(cohort_clip_args), COHORT_CLIP_NORM, 2.5, nullptr, nullptr});
  EXPECT_NEAR(a.item<float>(), 1.5, 1e-5);
  EXPECT_NEAR(b.item<float>(), 2.0, 1e-5);
}

TEST(Clip, TakesTheNormOverSeveralTypesInTheWidest) {
  const at::Tensor half = torch::ones({1}, torch::kFloat16), wide = torch::full({1}, 1e5F);  // above the greatest half
  clip_gradients({half, wide}, {sizeof(cohort_clip_args), COHORT_CLIP_NORM, 1.0, nullptr, nullptr});
  EXPECT_NEAR(wide.item<float>(), 1.0, 1e-4);
  EXPECT_NEAR(half.item<float>(), 1e-5, 1e-6);
}

TEST(Clip, TakesTheNormThatItIsGiven) {
  const at::Tensor a = torch::full({1}, 3.0), b = torch::full({1}, 4.0, torch::kFloat64);
  const double given = 10;  // over all ranks: these two gradients are a part
  double norm = 0;
  clip_gradients({a, b}, {sizeof(cohort_clip_args), COHORT_CLIP_NORM, 5.0, &norm, &given});
  EXPECT_EQ(norm, 10.0);
  EXPECT_NEAR(a.item<float>(), 1.5, 1e-5);
  EXPECT_NEAR(b.item<double>(), 2.0, 1e-6);
}

TEST(Clip, TellsTheNormAndLeavesGradientsWithAnInfiniteLimit) {
  const at::Tensor a = torch::full({1}, 3.0), b = torch::full({1}, 4.0, torch::kFloat64);
  double norm = 0;
  for (const int32_t by : {COHORT_CLIP_NORM, COHORT_CLIP_VALUE}) {
    norm = 0;
    clip_gradients({a, b}, {sizeof(cohort_clip_args), by, std::numeric_limits<double>::infinity(), &norm, nullptr});
    EXPECT_DOUBLE_EQ(norm, 5.0);
  }
  EXPECT_EQ(a.item<float>(), 3.0F);
  clip_gradients({a, b}, {sizeof(cohort_clip_args), COHORT_CLIP_VALUE, 3.5, &norm, nullptr});
  EXPECT_EQ(norm, 5.0);
  EXPECT_EQ(a.item<float>(), 3.0F);
  EXPECT_EQ(b.item<double>(), 3.5);
}

}  // namespace
}  // namespace cohort
