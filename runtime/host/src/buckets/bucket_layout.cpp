#include <cohort/host/bucket_layout.hpp>

#include <map>
#include <utility>

#include <cohort/sdk/dtype.hpp>

namespace cohort::host {
namespace {

void close(BucketPlan&& bucket, uint64_t align, std::vector<BucketPlan>& closed) {
  bucket.numel = (bucket.numel + align - 1) / align * align;
  bucket.nbytes = bucket.numel * sdk::size_of(bucket.dtype);
  closed.push_back(std::move(bucket));
}

}  // namespace

std::vector<BucketPlan> layout_buckets(std::span<const LayoutParameter> order, const LayoutLimits& limits) {
  const uint64_t align = limits.align == 0 ? 1 : limits.align;
  const uint64_t first_size = limits.first_size == 0 ? limits.size : limits.first_size;
  std::vector<BucketPlan> closed;
  std::map<std::pair<uint32_t, int32_t>, BucketPlan> open;  // by phase, then dtype
  for (const LayoutParameter& parameter : order) {
    BucketPlan& bucket = open[{parameter.phase, parameter.dtype}];
    bucket.dtype = parameter.dtype;
    bucket.phase = parameter.phase;
    bucket.parts.push_back({parameter.id, bucket.numel, parameter.numel, parameter.name});
    bucket.numel += parameter.numel;
    const uint64_t limit = closed.empty() ? first_size : limits.size;
    if (!limits.one_bucket && bucket.numel * sdk::size_of(bucket.dtype) >= limit) {
      close(std::move(bucket), align, closed);
      open.erase({parameter.phase, parameter.dtype});
    }
  }
  for (auto& [key, bucket] : open) close(std::move(bucket), align, closed);
  return closed;
}

}  // namespace cohort::host
