// Small reductions in one round: every rank offers all it has, and reduces what it wants by itself.
#pragma once

#include "operations.hpp"

namespace cohort::shm {

/// Up to this many bytes, copying and reducing everything on every rank costs less than a second barrier.
constexpr uint64_t kOneShotBytes = 2 << 10;

/// The elements of the whole that this rank wants, and where it wants them.
struct Wanted {
  uint64_t begin;
  uint64_t count;  // may be 0
  void* output;
};

/// `call.count` elements, at most kOneShotBytes, from every rank.
void reduce_in_one_shot(const Group& group, const cohort_op_args& args, const Call& call, const Wanted& wanted);

}  // namespace cohort::shm
