// The operations. All run inside Channel::run, with arguments that check_* has passed.
#pragma once

#include <cohort/api/collective.h>
#include <cohort/sdk/span.hpp>

#include "channel.hpp"
#include "group_memory.hpp"
#include "reduce.hpp"

namespace cohort::shm {

/// Throw INVALID_ARGUMENT where an operation cannot be done; before anything is published.
void check_all_reduce(const cohort_op_args& args);
void check_reduce(const cohort_op_args& args, int rank, int size);
void check_broadcast(const cohort_op_args& args, int rank, int size);
void check_all_gather(const cohort_op_args& args, int rank, int size);
void check_reduce_scatter(const cohort_op_args& args, int rank, int size);

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
