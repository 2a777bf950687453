#include "codec.hpp"

#include <cmath>
#include <cstring>

namespace cohort::bagua {

Codec::Codec(const sdk::Host& host, const cohort_bucket& bucket)
    : kernels_(host.kernels(bucket.stream.device_type)), stream_(bucket.stream) {
  const bool has_kernels =
      kernels_.encode_minmax_uint8 && kernels_.decode_minmax_uint8 && kernels_.decode_add_minmax_uint8;
  if (bucket.stream.device_type == COHORT_DEVICE_CPU && has_kernels) return;
  throw sdk::Error(COHORT_UNIMPLEMENTED,
                   "bagua compresses what it sends on CPU devices only, with kernels for min-max-uint8 that this "
                   "accelerator lacks; choose --strategy=bagua:gradient_allreduce");
}

void Codec::encode(void* chunk, const void* elements, int32_t dtype, uint64_t numel, double divisor) const {
  sdk::check(kernels_.encode_minmax_uint8(chunk, elements, dtype, numel, divisor, &stream_));
}

void Codec::decode(void* out, int32_t dtype, const void* chunk, uint64_t first, uint64_t numel) const {
  sdk::check(kernels_.decode_minmax_uint8(out, dtype, chunk, first, numel, &stream_));
}

void Codec::decode_add(void* out, int32_t dtype, const void* chunk, uint64_t first, uint64_t numel) const {
  sdk::check(kernels_.decode_add_minmax_uint8(out, dtype, chunk, first, numel, &stream_));
}

bool is_finite(const void* chunk) {
  float min = 0;
  std::memcpy(&min, chunk, sizeof min);
  return !std::isnan(min);
}

}  // namespace cohort::bagua
