#include <gtest/gtest.h>

#include <cohort/api/tensor.h>
#include <cohort/host/bucket_layout.hpp>

namespace cohort::host {
namespace {

LayoutParameter parameter(uint32_t id, uint64_t numel, int32_t dtype = COHORT_FLOAT32, uint32_t phase = 0) {
  return {id, "p" + std::to_string(id), numel, dtype, phase};
}

std::vector<std::vector<uint32_t>> ids(const std::vector<BucketPlan>& buckets) {
  std::vector<std::vector<uint32_t>> result;
  for (const BucketPlan& bucket : buckets) {
    result.emplace_back();
    for (const auto& part : bucket.parts) result.back().push_back(part.id);
  }
  return result;
}

using Ids = std::vector<std::vector<uint32_t>>;

TEST(BucketLayout, ClosesABucketWhenItsSizeIsReachedOrPassed) {
  const std::vector<LayoutParameter> order{parameter(3, 10), parameter(2, 10), parameter(1, 10), parameter(0, 10)};
  EXPECT_EQ(ids(layout_buckets(order, {.size = 80})), (Ids{{3, 2}, {1, 0}}));
  EXPECT_EQ(ids(layout_buckets(order, {.size = 81})), (Ids{{3, 2, 1}, {0}}));
}

TEST(BucketLayout, MakesTheFirstBucketSmaller) {
  const std::vector<LayoutParameter> order{parameter(3, 10), parameter(2, 10), parameter(1, 10), parameter(0, 10)};
  EXPECT_EQ(ids(layout_buckets(order, {.size = 120, .first_size = 4})), (Ids{{3}, {2, 1, 0}}));
}

TEST(BucketLayout, KeepsDataTypesAndPhasesApart) {
  const std::vector<LayoutParameter> order{parameter(3, 4, COHORT_FLOAT64), parameter(2, 4),
                                           parameter(1, 4, COHORT_FLOAT64), parameter(0, 4, COHORT_FLOAT32, 1)};
  const auto buckets = layout_buckets(order, {.size = 1 << 20});
  EXPECT_EQ(ids(buckets), (Ids{{2}, {3, 1}, {0}}));
  EXPECT_EQ(buckets[1].nbytes, 8u * 8u);
  EXPECT_EQ(buckets[2].phase, 1u);
}

TEST(BucketLayout, PadsEveryBucketToAlign) {
  const auto buckets = layout_buckets(std::vector{parameter(1, 5), parameter(0, 2)}, {.size = 1, .align = 4});
  EXPECT_EQ(buckets[0].numel, 8u);
  EXPECT_EQ(buckets[1].numel, 4u);
  EXPECT_EQ(buckets[1].nbytes, 16u);
}

TEST(BucketLayout, PutsEverythingInOneBucketWhereAsked) {
  const auto buckets =
      layout_buckets(std::vector{parameter(1, 500), parameter(0, 200)}, {.size = 1, .one_bucket = true});
  EXPECT_EQ(ids(buckets), (Ids{{1, 0}}));
  EXPECT_EQ(buckets[0].parts[1].offset, 500u);
}

TEST(BucketLayout, BeginsPartsOnCacheLinesWhereAnyOrderWill) {
  const std::vector<LayoutParameter> order{parameter(4, 10), parameter(3, 32), parameter(2, 3), parameter(1, 16),
                                           parameter(0, 8, COHORT_FLOAT64)};
  EXPECT_EQ(ids(layout_buckets(order, {.size = 1 << 20})), (Ids{{4, 3, 2, 1}, {0}}));
  const auto buckets = layout_buckets(order, {.size = 1 << 20, .any_order = true});
  EXPECT_EQ(ids(buckets), (Ids{{3, 1, 4, 2}, {0}}));
  std::vector<uint64_t> offsets;
  for (const auto& part : buckets[0].parts) offsets.push_back(part.offset);
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 32, 48, 58}));
  EXPECT_EQ(buckets[0].numel, 61u);
}

TEST(BucketLayout, GivesLargeParametersBucketsOfTheirOwnWhereAsked) {
  const std::vector<LayoutParameter> order{parameter(4, 1), parameter(3, 10), parameter(2, 2), parameter(1, 12),
                                           parameter(0, 1)};
  EXPECT_EQ(ids(layout_buckets(order, {.size = 16, .alone_size = 40})), (Ids{{3}, {1}, {4, 2, 0}}));
  EXPECT_EQ(ids(layout_buckets(order, {.size = 16, .one_bucket = true, .alone_size = 40})), (Ids{{4, 3, 2, 1, 0}}));
  EXPECT_EQ(layout_buckets(order, {.size = 16, .align = 4, .alone_size = 40})[0].numel, 12u);
}

TEST(BucketLayout, KeepsDevicesApart) {
  std::vector<LayoutParameter> order{parameter(4, 1), parameter(3, 1), parameter(2, 1), parameter(1, 1)};
  const Device first{COHORT_DEVICE_CUDA, 3}, second{COHORT_DEVICE_CUDA, 0};
  for (size_t i = 0; i < order.size(); ++i) order[i].device = i % 2 == 0 ? first : second;
  const auto buckets = layout_buckets(order, {.size = 1000});
  EXPECT_EQ(ids(buckets), (Ids{{4, 2}, {3, 1}}));
  EXPECT_EQ(buckets[0].device, first);
  EXPECT_EQ(buckets[1].device, second);
}

TEST(BucketLayout, OfNothingIsNothing) {
  EXPECT_TRUE(layout_buckets({}, {.size = 1}).empty());
}

}  // namespace
}  // namespace cohort::host
