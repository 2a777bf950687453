// The operations. All run inside Channel::run, with arguments that check_* has passed.
#pragma once

#include <vector>

#include <cohort/api/collective.h>
#include <cohort/sdk/span.hpp>

#include "arena.hpp"
#include "channel.hpp"
#include "reduce.hpp"

namespace cohort::shm {

/// Throw INVALID_ARGUMENT or UNIMPLEMENTED for an operation that is refused, before anything is published.
void check_all_reduce(const cohort_op_args& args, int size);
void check_reduce(const cohort_op_args& args, int rank, int size);
void check_broadcast(const cohort_op_args& args, int rank, int size);
void check_all_gather(const cohort_op_args& args, int rank, int size);
void check_reduce_scatter(const cohort_op_args& args, int rank, int size);

/// The arena as the ranks of one communicator see it. Borrows; immutable.
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

/// What an operation works on; borrows, for one call.
struct Group {
  Channel& channel;
  GroupMemory memory;
  ReduceFunction reduce;
};

void all_reduce(const Group& group, const cohort_op_args& args);
void reduce(const Group& group, const cohort_op_args& args);
void broadcast(const Group& group, const cohort_op_args& args);
void all_gather(const Group& group, const cohort_op_args& args);
void reduce_scatter(const Group& group, const cohort_op_args& args);
void exchange(const Group& group, sdk::Span<const cohort_message> messages);

}  // namespace cohort::shm
