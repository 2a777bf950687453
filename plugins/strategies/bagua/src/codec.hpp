// The min-max-uint8 codec of cohort/api/kernels.h, on buckets of one device.
//
// Borrows the host's kernels. Threads: any.
#pragma once

#include <cstdint>

#include <cohort/sdk/host.hpp>

namespace cohort::bagua {

/// Where a loop over several arrays stays in the first-level cache, so that each is read and written once.
inline constexpr uint64_t kTile = 2048;

/// Bytes of a chunk of `numel` elements.
inline uint64_t chunk_nbytes(uint64_t numel) {
  return COHORT_MINMAX_UINT8_NBYTES(numel);
}

class Codec {
 public:
  /// Throws where the bucket's device cannot do it.
  Codec(const sdk::Host& host, const cohort_bucket& bucket);

  /// chunk = elements / divisor
  void encode(void* chunk, const void* elements, int32_t dtype, uint64_t numel, double divisor = 1.0) const;
  /// out = elements first .. first + numel - 1 of the chunk
  void decode(void* out, int32_t dtype, const void* chunk, uint64_t first, uint64_t numel) const;
  /// out = out + those elements
  void decode_add(void* out, int32_t dtype, const void* chunk, uint64_t first, uint64_t numel) const;
  const cohort_kernels_1& kernels() const { return kernels_; }
  const cohort_stream* stream() const { return &stream_; }

 private:
  const cohort_kernels_1& kernels_;
  cohort_stream stream_;
};

/// False where an element was NaN or infinite.
bool is_finite(const void* chunk);

}  // namespace cohort::bagua
