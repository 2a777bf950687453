// Reducing the same elements of several ranks, in rank order, with the widest instructions of this processor.
//
// Results have the same bits whatever the instruction set, the number of elements and the place in memory: elements are
// independent, there is no fused multiply-add, and a mean is the sum divided by the number of ranks. float16 and
// bfloat16 are reduced in float32 and rounded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort::shm {

struct Reduction {
  int32_t dtype;
  int32_t op;  // COHORT_REDUCE_...
  const std::byte* const* sources;
  int num_sources;
  std::byte* const* sinks;  // a sink may be a source, or lies apart from all of them
  int num_sinks;            // at least 1
  uint64_t count;
};

using ReduceFunction = void (*)(const Reduction&);

/// "auto" is the widest instruction set of this processor; null for one that it or this build does not have. Arguments
/// of the function must have passed check_all_reduce.
ReduceFunction reduce_for(std::string_view isa);

}  // namespace cohort::shm
