#include "gradients/streaming_copy.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace {

using cohort::streaming_copy;

TEST(StreamingCopy, GivesTheSameBitsAtEverySizeAndAlignment) {
  for (const int64_t numel : {int64_t{1}, int64_t{1000}, int64_t{(1 << 18) - 1}, int64_t{1 << 18}, int64_t{1000003}}) {
    for (const int64_t shift : {0, 1, 3}) {
      const auto from = torch::randn({numel + shift}).slice(0, shift);
      const auto whole = torch::full({numel + 8}, 7.0);
      const auto to = whole.slice(0, 3, 3 + numel);
      streaming_copy(to, from);
      EXPECT_TRUE(torch::equal(to, from)) << numel << " elements, shifted by " << shift;
      EXPECT_TRUE(torch::equal(whole.slice(0, 0, 3), torch::full({3}, 7.0)));
      EXPECT_TRUE(torch::equal(whole.slice(0, 3 + numel), torch::full({5}, 7.0)));
    }
  }
}

TEST(StreamingCopy, KeepsTheOrderOfElementsWhereTheOtherIsLaidOutDifferently) {
  const auto from = torch::randn({1024, 512}).t();
  const auto to = torch::empty({512, 1024});
  streaming_copy(to, from);
  EXPECT_TRUE(torch::equal(to, from));
}

TEST(StreamingCopy, NegatesWhatIsOnlyMarkedAsNegative) {
  const auto from = torch::_neg_view(torch::randn({1 << 19}));
  const auto to = torch::empty({1 << 19});
  streaming_copy(to, from);
  EXPECT_TRUE(torch::equal(to, from));
}

TEST(StreamingCopy, ConvertsToAnotherType) {
  const auto from = torch::randn({1 << 19}, torch::kFloat64);
  const auto to = torch::empty({1 << 19}, torch::kFloat32);
  streaming_copy(to, from);
  EXPECT_TRUE(torch::equal(to, from.to(torch::kFloat32)));
}

}  // namespace
