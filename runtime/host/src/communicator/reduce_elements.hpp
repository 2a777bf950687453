// Reduces the same elements of several ranks, in rank order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cohort::host {

/// output[i] = sources[0][i] op sources[1][i] op ..., left to right; COHORT_REDUCE_MEAN divides the sum by the number
/// of sources. 16-bit floating types are reduced in float32 and rounded once. `output` may be one of the sources. The
/// pair of dtype and reduce has passed sdk::can_reduce.
void reduce_elements(int32_t dtype, int32_t reduce, std::span<const std::byte* const> sources, std::byte* output,
                     uint64_t count);

}  // namespace cohort::host
