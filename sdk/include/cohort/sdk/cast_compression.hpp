// Compression by a cast: gradients are cast to a 16-bit type in a buffer, reduced there, and cast back.
//
// One buffer serves all buckets, because they are reduced one after another. Construct the object in create, call
// prepare in layout_ready and all_reduce in reduce_bucket. The collective sums in fp32 and rounds once.
#pragma once

#include <cstdint>
#include <string_view>

#include <cohort/sdk/host.hpp>

namespace cohort::sdk {
inline namespace v1 {

class CastCompression {
 public:
  CastCompression() = default;
  /// Selects the 16-bit type. `compression`: "none", "fp16", "bf16".
  explicit CastCompression(std::string_view compression) : dtype_(dtype_of(compression)) {}

  /// Returns whether the bucket is cast. Other buckets are sent unchanged; a single rank sends nothing.
  bool casts(const cohort_bucket& bucket) const {
    return dtype_ != 0 && !is_alone_ && size_of(bucket.dtype) > size_of(dtype_);
  }

  /// Allocates device memory for the largest bucket, so that steps allocate nothing.
  void prepare(const Host& host) {
    is_alone_ = host.world().size() == 1;
    const Buckets buckets = host.buckets();
    const cohort_bucket* largest = nullptr;
    for (uint32_t i = 0; i < buckets.count(); ++i) {
      const cohort_bucket& bucket = buckets.at(i);
      if (!casts(bucket)) continue;
      if (!largest || bucket.numel > largest->numel) largest = &bucket;
    }
    buffer_ = DeviceBuffer();
    if (!largest) return;
    buffer_ = host.alloc(largest->device_type, largest->device_index, largest->numel * size_of(dtype_));
  }

  /// Reduces the bucket's gradients in place. Requires casts(bucket).
  void all_reduce(const Host& host, const cohort_bucket& bucket, int32_t reduce) {
    const TensorView gradients = host.buckets().view(bucket.index, COHORT_BUCKET_GRAD);
    const CoreKernels kernels = host.core_kernels(bucket.device_type);
    const cohort_stream stream = host.stream(bucket);
    const Elements full{gradients.data(), bucket.numel, bucket.dtype, stream};
    const Elements half{buffer_.data(), bucket.numel, dtype_, stream};
    kernels.cast(half, full.data, full.dtype);
    host.comm(bucket).all_reduce(half, reduce);
    kernels.cast(full, half.data, half.dtype);
  }

 private:
  static int32_t dtype_of(std::string_view compression) {
    if (compression == "fp16") return COHORT_FLOAT16;
    return compression == "bf16" ? COHORT_BFLOAT16 : 0;
  }

  int32_t dtype_ = 0;  // 0: gradients are sent unchanged
  bool is_alone_ = false;
  DeviceBuffer buffer_;
};

}  // namespace v1
}  // namespace cohort::sdk
