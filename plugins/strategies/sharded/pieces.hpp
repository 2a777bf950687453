// A bucket as the pieces that its owners have: each stretch of it is one operation of all ranks.
#pragma once

#include <cstdint>
#include <vector>

#include <cohort/sdk/comm.hpp>

namespace cohort::sharded {

/// Parts of a bucket, one after another, with owners in rank order.
struct Stretch {
  uint64_t begin = 0;            ///< elements from the beginning of the bucket
  uint64_t numel = 0;            ///< of all pieces
  std::vector<uint64_t> pieces;  ///< elements, by rank
  int last_owner = 0;
  int num_owners = 0;  ///< with a piece that is not empty
};

/// Returns the stretches of a bucket; `owners` is by parameter.
std::vector<Stretch> stretches_of(const cohort_bucket& bucket, const std::vector<int>& owners, int ranks);

/// Gives each owner the mean over the ranks in its piece; others' pieces are undefined afterwards.
void reduce_to_owners(const sdk::Comm& comm, const sdk::Elements& bucket, const Stretch& stretch);
/// Gives all ranks what the owners have in their pieces.
void gather_from_owners(const sdk::Comm& comm, const sdk::Elements& bucket, const Stretch& stretch);

}  // namespace cohort::sharded
