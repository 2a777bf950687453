// Chunks of the min-max-uint8 codec of cohort/api/kernels.h.
#pragma once

#include <cstdint>

#include <cohort/sdk/host.hpp>

namespace cohort::bagua {

/// Bytes of a chunk of `numel` elements.
inline uint64_t chunk_nbytes(uint64_t numel) {
  return COHORT_MINMAX_UINT8_NBYTES(numel);
}

/// Returns false if an element of one of the chunks, each of `nbytes` in host memory, was NaN or infinite. Beginnings
/// of chunks are enough.
bool are_finite(const void* chunks, uint64_t nbytes, int num_chunks);

}  // namespace cohort::bagua
