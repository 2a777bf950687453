// Compression by a cast: gradients are cast to a 16-bit type in a buffer, reduced there, and cast back.
//
// One buffer serves all buckets, which are reduced one after the other. Made in create; prepare in layout_ready,
// all_reduce in reduce_bucket. The sum is the collective's: taken in fp32 and rounded once.
#pragma once

#include <cstdint>
#include <string_view>

#include <cohort/sdk/host.hpp>

namespace cohort::sdk {
inline namespace v1 {

class CastCompression {
 public:
  CastCompression() = default;
  /// `compression`: "none", "fp16", "bf16".
  explicit CastCompression(std::string_view compression) : dtype_(dtype_of(compression)) {}

  /// Returns whether the bucket is cast; others are sent as they are, and with one rank nothing is sent.
  bool casts(const cohort_bucket& bucket) const {
    return dtype_ != 0 && !is_alone_ && size_of(bucket.dtype) > size_of(dtype_);
  }

  /// Allocates memory of the device for the largest bucket, so that steps allocate nothing.
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

  int32_t dtype_ = 0;  // 0: gradients travel as they are
  bool is_alone_ = false;
  DeviceBuffer buffer_;
};

}  // namespace v1
}  // namespace cohort::sdk
