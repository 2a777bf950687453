// Sums over the ranks, those of floating numbers in the instructions that this processor has: what gradients spend
// their time in. The bits are those of sdk::reduce_elements. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cohort::mpi {

/// Elements of all ranks, in rank order; the output may be one of them.
struct Sources {
  const std::byte* const* data;
  std::size_t ranks;
  std::byte* output;
  std::uint64_t count;
};

/// Sums or means of floating numbers in one set of instructions.
using FloatSum = void (*)(std::int32_t dtype, bool is_mean, const Sources& sources);

/// "auto" is the widest instruction set of this processor; null for one that it or this build does not have.
FloatSum float_sum_for(std::string_view isa);

/// output[i] = data[0][i] op data[1][i] op ..., as sdk::reduce_elements. Takes what cohort/sdk/dtype.hpp's can_reduce
/// allows.
void reduce_in_order(FloatSum float_sum, std::int32_t dtype, std::int32_t reduce, const Sources& sources);

}  // namespace cohort::mpi
