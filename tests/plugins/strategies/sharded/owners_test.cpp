// Counts the shares of the owners that are chosen, and checks the stretches of a bucket that their operations work on.
#include "owners.hpp"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pieces.hpp"

namespace cohort::sharded {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Le;
using Owners = std::vector<std::vector<int>>;

Line line_of(const std::vector<uint64_t>& sizes) {
  Line line;
  for (const uint64_t nbytes : sizes) line.push_back({static_cast<uint32_t>(line.size()), nbytes});
  return line;
}

std::vector<double> shares_of(const std::vector<Line>& lines, int ranks) {
  const Owners owners = owners_of(lines, ranks);
  std::vector<double> shares(static_cast<size_t>(ranks));
  double total = 0;
  for (size_t line = 0; line < lines.size(); ++line) {
    for (size_t i = 0; i < lines[line].size(); ++i) {
      shares.at(static_cast<size_t>(owners[line][i])) += static_cast<double>(lines[line][i].nbytes);
      total += static_cast<double>(lines[line][i].nbytes);
    }
  }
  for (double& share : shares) share /= total;
  return shares;
}

// Returns the parameters of a transformer of this width, last parameter first: head, then blocks, then embeddings.
Line transformer(uint64_t width, int blocks, uint64_t tokens) {
  std::vector<uint64_t> numels{width * tokens, width, width};
  for (int block = 0; block < blocks; ++block) {
    // fc2, fc1, proj, qkv: a bias before its weights
    for (const uint64_t numel :
         {width, 4 * width * width, 4 * width, 4 * width * width, width, width * width, 3 * width, 3 * width * width}) {
      numels.push_back(numel);
    }
    for (int norm = 0; norm < 4; ++norm) numels.push_back(width);
  }
  numels.push_back(width * 64);
  numels.push_back(width * tokens);
  for (uint64_t& numel : numels) numel *= sizeof(float);
  return line_of(numels);
}

TEST(Owners, HaveEvenSharesOfTransformers) {
  for (const int ranks : {2, 3, 4}) {
    for (const Line& line : {transformer(128, 4, 65), transformer(768, 12, 50257), transformer(512, 6, 1000)}) {
      const uint64_t largest = std::ranges::max_element(line, {}, &Parameter::nbytes)->nbytes;
      double total = 0;
      for (const Parameter& parameter : line) total += static_cast<double>(parameter.nbytes);
      const double limit = std::max(1.1 / ranks, 1.01 * static_cast<double>(largest) / total);
      EXPECT_THAT(shares_of({line}, ranks), Each(Le(limit))) << ranks << " ranks, " << line.size() << " parameters";
    }
  }
}

TEST(Owners, HaveOneRangeEachOfSmallParameters) {
  const Owners owners = owners_of({line_of(std::vector<uint64_t>(40, 4))}, 4);
  EXPECT_TRUE(std::ranges::is_sorted(owners[0]));
  for (const int rank : {0, 1, 2, 3}) EXPECT_EQ(std::ranges::count(owners[0], rank), 10);
}

TEST(Owners, EvenOutWhatOtherTypesAndPhasesLeft) {
  EXPECT_THAT(shares_of({line_of({600, 100}), line_of({100, 100, 100, 100, 100})}, 2), Each(Ge(0.45)));
}

TEST(Owners, AreTheLeastLoadedRanksWhereParametersAreLarge) {
  EXPECT_THAT(owners_of({line_of({8, 4, 4, 8})}, 2), ElementsAre(ElementsAre(0, 0, 1, 1)));
  EXPECT_THAT(shares_of({line_of({50, 10, 50, 10, 50, 10, 20})}, 4), Each(Ge(0.15)));
  EXPECT_THAT(owners_of({line_of({1})}, 3), ElementsAre(ElementsAre(testing::AllOf(Ge(0), Le(2)))));
}

// ---- stretches

struct Bucket {
  explicit Bucket(const std::vector<uint64_t>& numels) {
    uint64_t offset = 0;
    for (const uint64_t numel : numels) {
      parts.push_back({"", offset, numel, static_cast<uint32_t>(parts.size()), 0});
      offset += numel;
    }
    bucket.parts = parts.data();
    bucket.num_parts = parts.size();
    bucket.numel = offset + 3;  // padding
  }
  std::vector<cohort_bucket_part> parts;
  cohort_bucket bucket{};
};

TEST(Stretches, AreOneWhereOwnersFollowEachOther) {
  const Bucket bucket({5, 2, 1, 4});
  const auto stretches = stretches_of(bucket.bucket, {0, 0, 2, 2}, 3);
  ASSERT_EQ(stretches.size(), 1u);
  EXPECT_THAT(stretches[0].pieces, ElementsAre(7, 0, 5));
  EXPECT_EQ(stretches[0].numel, 12u);
  EXPECT_EQ(stretches[0].num_owners, 2);
}

TEST(Stretches, BeginAnewWhereAnEarlierRankOwns) {
  const Bucket bucket({5, 2, 1, 4});
  const auto stretches = stretches_of(bucket.bucket, {1, 0, 1, 0}, 2);
  ASSERT_EQ(stretches.size(), 3u);
  EXPECT_THAT(stretches[0].pieces, ElementsAre(0, 5));
  EXPECT_THAT(stretches[1].pieces, ElementsAre(2, 1));
  EXPECT_EQ(stretches[1].begin, 5u);
  EXPECT_THAT(stretches[2].pieces, ElementsAre(4, 0));
  EXPECT_EQ(stretches[2].begin, 8u);
  EXPECT_EQ(stretches[2].num_owners, 1);
  EXPECT_EQ(stretches[2].last_owner, 0);
}

}  // namespace
}  // namespace cohort::sharded
