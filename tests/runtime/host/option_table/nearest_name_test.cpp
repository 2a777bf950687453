#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <cohort/host/option_table.hpp>

namespace cohort::host {
namespace {

const std::vector<std::string> kNames{"ring", "tree", "butterfly", "bucket_size"};

TEST(NearestName, FindsASlipOfTheFinger) {
  EXPECT_EQ(nearest_name("rnig", kNames), "ring");
  EXPECT_EQ(nearest_name("rin", kNames), "ring");
  EXPECT_EQ(nearest_name("treee", kNames), "tree");
  EXPECT_EQ(nearest_name("bucketsize", kNames), "bucket_size");
  EXPECT_EQ(nearest_name("buterfly", kNames), "butterfly");
}

TEST(NearestName, IsEmptyWhereNothingIsNear) {
  EXPECT_EQ(nearest_name("xyz", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("ring", {}), "");
  EXPECT_EQ(nearest_name(std::string(1'000'000, 'r'), kNames), "");
}

TEST(NearestName, PrefersTheFirstOfEquallyNearOnes) {
  const std::vector<std::string> names{"ab", "ad"};
  EXPECT_EQ(nearest_name("ac", names), "ab");
}

}  // namespace
}  // namespace cohort::host
