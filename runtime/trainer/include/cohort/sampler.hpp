// Which samples a rank sees, as pure functions of the dataset's size.
//
// Rank r takes the samples r::world of the (shuffled) index list. Training pads the list by wrapping around, so that
// all ranks take equal steps; evaluation never pads, so that each sample counts once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace cohort {

/// A rank's part of the data in one epoch.
struct Shard {
  int rank = 0;
  int world_size = 1;
  uint64_t seed = 0;
  int64_t epoch = 0;
};

/// A user's own choice of samples, in place of the runtime's: the indices of this rank, in order.
using Sampler = std::function<std::vector<int64_t>(int64_t size, const Shard& shard)>;

/// Returns the seed of the order of samples in a program's fit of this number, from 1: the program's own in the first,
/// unrelated ones later, so that a second fit does not repeat the order of the first.
uint64_t seed_of_fit(uint64_t seed, int64_t fit);

/// A permutation of 0 .. size-1 that depends on seed and epoch alone, equal on every platform.
std::vector<int64_t> permutation(int64_t size, uint64_t seed, int64_t epoch);

/// Every rank gets ceil(n / world_size) indices of the n that are left behind the first `begin` of the epoch's order,
/// also if n is smaller than the world: then, and if n is no multiple of it, the first of the n indices are repeated.
std::vector<int64_t> training_indices(int64_t size, const Shard& shard, bool shuffle, int64_t begin = 0);

/// Every index goes to exactly one rank, in ascending order.
std::vector<int64_t> evaluation_indices(int64_t size, const Shard& shard);

/// Returns a sampler that draws as many samples an epoch, over all ranks, each in proportion to its weight: anew after
/// each draw (`replacement`), or among those that are left. The draws depend on seed and epoch alone; all ranks get
/// equally many. Throws UserError for weights that are negative, not finite or all 0, or if too few are above 0.
Sampler weighted_sampler(std::vector<double> weights, int64_t samples_per_epoch, bool replacement = true);

}  // namespace cohort
