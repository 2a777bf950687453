// The operations, each in a file of its own. All run inside Channel::run, with arguments that check_* has passed.
#pragma once

#include <cohort/api/collective.h>
#include <cohort/sdk/span.hpp>

#include "channel.hpp"
#include "group_memory.hpp"
#include "reduce.hpp"

namespace cohort::shm {

/// Throw INVALID_ARGUMENT where an operation cannot be done; before anything is published.
void check_all_reduce(const cohort_op_args& args);
void check_elements(const cohort_op_args& args, const char* operation);
void check_broadcast(const cohort_op_args& args, int size);
void check_exchange(sdk::Span<const cohort_message> messages, int rank, int size);

/// Slice owners reduce in rank order, from the ranks' memory where it is shared, else from staging, and write to all
/// ranks.
void all_reduce(Channel& channel, const GroupMemory& memory, ReduceFunction reduce, const cohort_op_args& args);
void broadcast(Channel& channel, const GroupMemory& memory, const cohort_op_args& args);
void all_gather(Channel& channel, const GroupMemory& memory, const cohort_op_args& args);
void exchange(Channel& channel, const GroupMemory& memory, sdk::Span<const cohort_message> messages);

}  // namespace cohort::shm
