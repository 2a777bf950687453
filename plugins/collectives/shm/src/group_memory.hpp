// The arena as the ranks of one communicator see it. Borrows; immutable.
#pragma once

#include <vector>

#include "arena.hpp"

namespace cohort::shm {

class GroupMemory {
 public:
  /// `root_ranks` are the ranks in the root communicator, by rank in this one.
  GroupMemory(const Arena& arena, const std::vector<int>& root_ranks) : arena_(arena), root_ranks_(root_ranks) {}

  Place find(const void* memory, uint64_t nbytes) const { return arena_.find(memory, nbytes); }
  /// Null for no place.
  std::byte* resolve(int rank, const Place& place, uint64_t nbytes) const {
    if (place.region == 0) return nullptr;
    return arena_.resolve(root_ranks_[static_cast<std::size_t>(rank)], place, nbytes);
  }

 private:
  const Arena& arena_;
  const std::vector<int>& root_ranks_;
};

}  // namespace cohort::shm
