// Compression by a cast: gradients are cast to a 16-bit type in a buffer, reduced there, and cast back.
//
// One buffer serves all buckets of a device, because they are reduced one after another. Construct the object in
// create, call prepare in layout_ready and all_reduce in reduce_bucket. The collective sums in fp32 and rounds once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include <cohort/sdk/host.hpp>

namespace cohort::sdk {
inline namespace v1 {

class CastCompression {
 public:
  CastCompression() = default;
  /// Selects the 16-bit type. `compression`: "none", "fp16", "bf16".
  explicit CastCompression(std::string_view compression) : dtype_(dtype_of(compression)) {}

  /// Returns whether the bucket is cast. Other buckets are sent unchanged; a single rank sends nothing.
  bool casts(const Host& host, const cohort_bucket& bucket) const {
    return dtype_ != 0 && size_of(bucket.dtype) > size_of(dtype_) && host.comm(bucket).size() > 1;
  }

  /// Allocates memory for the largest bucket on each device, so that steps allocate nothing.
  void prepare(const Host& host) {
    const Buckets buckets = host.buckets();
    std::map<Place, uint64_t> largest;  // elements
    for (uint32_t i = 0; i < buckets.count(); ++i) {
      const cohort_bucket& bucket = buckets.at(i);
      if (casts(host, bucket)) largest[place_of(bucket)] = std::max(largest[place_of(bucket)], bucket.numel);
    }
    buffers_.clear();
    for (const auto& [place, numel] : largest) {
      buffers_[place] = host.alloc(place.first, place.second, numel * size_of(dtype_));
    }
  }

  /// Reduces the bucket's gradients in place. Requires casts(host, bucket).
  void all_reduce(const Host& host, const cohort_bucket& bucket, int32_t reduce) {
    const TensorView gradients = host.buckets().view(bucket.index, COHORT_BUCKET_GRAD);
    const CoreKernels kernels = host.core_kernels(bucket.device_type);
    const cohort_stream stream = host.stream(bucket);
    const Elements full{gradients.data(), bucket.numel, bucket.dtype, stream};
    const Elements half{buffers_.at(place_of(bucket)).data(), bucket.numel, dtype_, stream};
    kernels.cast(half, full.data, full.dtype);
    host.comm(bucket).all_reduce(half, reduce);
    kernels.cast(full, half.data, half.dtype);
  }

 private:
  static int32_t dtype_of(std::string_view compression) {
    if (compression == "fp16") return COHORT_FLOAT16;
    return compression == "bf16" ? COHORT_BFLOAT16 : 0;
  }

  using Place = std::pair<int32_t, int32_t>;  // type and index of a device

  static Place place_of(const cohort_bucket& bucket) { return {bucket.device_type, bucket.device_index}; }

  int32_t dtype_ = 0;  // 0: gradients are sent unchanged
  std::map<Place, DeviceBuffer> buffers_;
};

}  // namespace v1
}  // namespace cohort::sdk
