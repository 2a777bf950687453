// The min-max-uint8 codec of cohort/api/kernels.h, on buckets of one device.
//
// Borrows the host's kernels. Threads: any.
#pragma once

#include <cstdint>

#include <cohort/sdk/host.hpp>

namespace cohort::bagua {

/// Bytes of a chunk of `numel` elements.
inline uint64_t chunk_nbytes(uint64_t numel) {
  return COHORT_MINMAX_UINT8_NBYTES(numel);
}

/// Returns the kernels for the bucket's device. Throws if it is not a CPU.
sdk::MinmaxUint8Kernels codec_for(const sdk::Host& host, const cohort_bucket& bucket);

/// Returns false if an element of one of the chunks, each of `numel` elements, was NaN or infinite.
bool are_finite(const void* chunks, uint64_t numel, int num_chunks);

}  // namespace cohort::bagua
