#include <cohort/sampler.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include <cohort/host/error.hpp>

#include "error_text.hpp"

namespace cohort {
namespace {

using ::testing::HasSubstr;

// The naive rule, sample by sample: position p of the endless repetition of the list belongs to rank p % world;
// training takes positions up to the next multiple of the world, evaluation those of the list itself.
std::vector<int64_t> reference(const std::vector<int64_t>& list, int rank, int world, bool padded) {
  std::vector<int64_t> mine;
  if (list.empty()) return mine;
  size_t end = list.size();
  while (padded && end % static_cast<size_t>(world) != 0) ++end;
  for (size_t position = 0; position < end; ++position) {
    if (position % static_cast<size_t>(world) == static_cast<size_t>(rank))
      mine.push_back(list[position % list.size()]);
  }
  return mine;
}

TEST(Sampler, FollowsTheNaiveRuleForEverySmallSizeAndWorld) {
  for (int world = 1; world <= 5; ++world) {
    for (int64_t size = 0; size <= 12; ++size) {
      std::vector<int64_t> plain(static_cast<size_t>(size));
      std::iota(plain.begin(), plain.end(), 0);
      for (int rank = 0; rank < world; ++rank) {
        const Shard shard{rank, world, 7, 3};
        const auto shuffled = permutation(size, 7, 3);
        EXPECT_EQ(training_indices(size, shard, false), reference(plain, rank, world, true)) << size << "/" << world;
        EXPECT_EQ(training_indices(size, shard, true), reference(shuffled, rank, world, true)) << size << "/" << world;
        EXPECT_EQ(evaluation_indices(size, shard), reference(plain, rank, world, false)) << size << "/" << world;
      }
    }
  }
}

// The naive rule: of the endless repetition of what is left behind the first `begin` positions, position p belongs to
// rank p % world.
std::vector<int64_t> rest_by_rule(const std::vector<int64_t>& list, int64_t begin, int rank, int world) {
  std::vector<int64_t> mine;
  const int64_t left = std::ssize(list) - begin;
  for (int64_t p = 0; p < left || (left > 0 && p % world != 0); ++p) {
    if (p % world == rank) mine.push_back(list[static_cast<size_t>(begin + p % left)]);
  }
  return mine;
}

TEST(Sampler, DividesWhatIsLeftAmongAnotherNumberOfRanks) {
  for (int world = 1; world <= 4; ++world) {
    for (int64_t size = 1; size <= 9; ++size) {
      const auto order = permutation(size, 7, 3);
      for (int64_t begin = 0; begin <= size + 1; ++begin) {
        for (int rank = 0; rank < world; ++rank) {
          EXPECT_EQ(training_indices(size, {rank, world, 7, 3}, true, begin), rest_by_rule(order, begin, rank, world))
              << begin << " of " << size << ", " << world << " ranks";
        }
      }
    }
  }
}

TEST(Sampler, PermutationHasEveryIndexOnce) {
  for (int64_t size : {0, 1, 2, 1000}) {
    auto list = permutation(size, 1, 2);
    std::sort(list.begin(), list.end());
    for (int64_t i = 0; i < size; ++i) EXPECT_EQ(list[static_cast<size_t>(i)], i);
  }
}

TEST(Sampler, PermutationDependsOnSeedAndEpochOnly) {
  EXPECT_EQ(permutation(100, 5, 6), permutation(100, 5, 6));
  EXPECT_NE(permutation(100, 5, 6), permutation(100, 5, 7));
  EXPECT_NE(permutation(100, 5, 6), permutation(100, 6, 6));
  EXPECT_NE(permutation(100, 0, 1), permutation(100, 1, 0));
}

TEST(Sampler, EveryPositionIsEquallyLikely) {
  constexpr int kEpochs = 6000;
  std::array<int, 6> count{};
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) ++count[static_cast<size_t>(permutation(6, 0, epoch)[0])];
  for (const int n : count) EXPECT_NEAR(n, kEpochs / 6, 150);  // five standard deviations
}

TEST(SeedOfFit, IsTheProgramsOwnInTheFirstAndAnotherInEachLater) {
  EXPECT_EQ(seed_of_fit(7, 1), 7U);
  std::set<uint64_t> seeds;
  for (const uint64_t seed : {0U, 1U, 2U}) {
    for (int64_t fit = 1; fit <= 20; ++fit) seeds.insert(seed_of_fit(seed, fit));
  }
  EXPECT_EQ(seeds.size(), 60U);
}

TEST(WeightedSampler, DrawsInProportionToTheWeights) {
  const std::vector<double> weights{1, 0, 2, 0.5, 0, 4, 0.5};
  constexpr int64_t kDraws = 80'000;
  std::vector<double> count(weights.size());
  for (const int64_t index : weighted_sampler(weights, kDraws)(7, {})) ++count[static_cast<size_t>(index)];
  for (size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / 8;
    EXPECT_NEAR(count[i] / kDraws, share, 5 * std::sqrt(share * (1 - share) / kDraws)) << i;  // five deviations
  }
}

TEST(WeightedSampler, WithoutReplacementDrawsAmongThoseThatAreLeft) {
  const std::vector<double> weights{1, 2, 3};
  constexpr int kEpochs = 20'000;
  std::map<std::vector<int64_t>, double> count;
  const Sampler sampler = weighted_sampler(weights, 2, /*replacement=*/false);
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) ++count[sampler(3, {.seed = 9, .epoch = epoch})];
  for (const int64_t a : {0, 1, 2}) {
    for (const int64_t b : {0, 1, 2}) {
      const double first = weights[static_cast<size_t>(a)], second = weights[static_cast<size_t>(b)];
      const double share = a == b ? 0 : first / 6 * second / (6 - first);
      EXPECT_NEAR((count[{a, b}]) / kEpochs, share, 5 * std::sqrt(share * (1 - share) / kEpochs)) << a << ", " << b;
    }
  }
}

TEST(WeightedSampler, WithoutReplacementCanTakeAllThatHaveAWeight) {
  std::vector<double> weights(1000, 0.1);
  weights[17] = weights[999] = 0;
  auto drawn = weighted_sampler(weights, 998, false)(1000, {.seed = 4});
  EXPECT_EQ(std::set(drawn.begin(), drawn.end()).size(), 998U);
  EXPECT_EQ(std::ranges::count(drawn, 17) + std::ranges::count(drawn, 999), 0);
}

TEST(WeightedSampler, DividesOneListOverTheRanks) {
  for (const bool replacement : {true, false}) {
    const Sampler sampler = weighted_sampler({1, 2, 3, 4, 5, 6, 7}, 5, replacement);
    const auto whole = sampler(7, {0, 1, 3, 2});
    for (int world = 1; world <= 8; ++world) {
      for (int rank = 0; rank < world; ++rank) {
        EXPECT_EQ(sampler(7, {rank, world, 3, 2}), reference(whole, rank, world, /*padded=*/true)) << world;
      }
    }
    EXPECT_NE(sampler(7, {0, 1, 3, 3}), whole);
    EXPECT_NE(sampler(7, {0, 1, 4, 2}), whole);
  }
}

TEST(WeightedSampler, ExplainsWeightsThatCannotBe) {
  const auto message = [](std::vector<double> weights, int64_t samples, bool replacement = true) {
    return error_text<UserError>([&] { weighted_sampler(std::move(weights), samples, replacement)(2, {}); });
  };
  EXPECT_THAT(message({1, -1}, 1), HasSubstr("negative"));
  EXPECT_THAT(message({1, std::numeric_limits<double>::infinity()}, 1), HasSubstr("not finite"));
  EXPECT_THAT(message({0, 0}, 1), HasSubstr("no weight above 0"));
  EXPECT_THAT(message({}, 1), HasSubstr("no weight above 0"));
  EXPECT_THAT(message({1, 1}, 0), HasSubstr("at least one sample"));
  EXPECT_THAT(message({1, 0}, 2, false), HasSubstr("only 1 weights are above 0"));
  EXPECT_THAT(message({1, 1, 1}, 2), HasSubstr("3 weights for 2 samples"));
  EXPECT_EQ(message({1, 0}, 2), "");
}

}  // namespace
}  // namespace cohort
