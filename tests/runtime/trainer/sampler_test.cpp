#include <cohort/sampler.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace cohort {
namespace {

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

}  // namespace
}  // namespace cohort
