#include "codec.hpp"

#include <cmath>
#include <cstring>

namespace cohort::bagua {

sdk::MinmaxUint8Kernels codec_for(const sdk::Host& host, const cohort_bucket& bucket) {
  const int32_t device_type = bucket.stream.device_type;
  if (device_type == COHORT_DEVICE_CPU) return host.minmax_uint8_kernels(device_type);
  throw sdk::Error(COHORT_UNIMPLEMENTED,
                   "bagua compresses what it sends on CPU devices only; choose --strategy=bagua:gradient_allreduce");
}

bool are_finite(const void* chunks, uint64_t numel, int num_chunks) {
  const auto* chunk = static_cast<const unsigned char*>(chunks);
  for (int i = 0; i < num_chunks; ++i, chunk += chunk_nbytes(numel)) {
    float min = 0;
    std::memcpy(&min, chunk, sizeof min);
    if (std::isnan(min)) return false;
  }
  return true;
}

}  // namespace cohort::bagua
