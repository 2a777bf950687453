#include <cohort/host/bucket_layout.hpp>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <cohort/sdk/dtype.hpp>

namespace cohort::host {
namespace {

// Parts that fill whole cache lines come first: then each of them begins one, whatever biases lie between them.
void align_parts(BucketPlan& bucket) {
  constexpr uint64_t kLineBytes = 64;
  const uint64_t line = kLineBytes / sdk::size_of(bucket.dtype);
  const auto fills_lines = [&](const auto& part) { return part.numel % line == 0; };
  std::stable_partition(bucket.parts.begin(), bucket.parts.end(), fills_lines);
  uint64_t offset = 0;
  for (BucketPlan::Part& part : bucket.parts) part.offset = std::exchange(offset, offset + part.numel);
}

void close(BucketPlan&& bucket, const LayoutLimits& limits, std::vector<BucketPlan>& closed) {
  const uint64_t align = limits.align == 0 ? 1 : limits.align;
  if (limits.any_order) align_parts(bucket);
  bucket.numel = (bucket.numel + align - 1) / align * align;
  bucket.nbytes = bucket.numel * sdk::size_of(bucket.dtype);
  closed.push_back(std::move(bucket));
}

bool stands_alone(const LayoutParameter& parameter, const LayoutLimits& limits) {
  const bool is_large = parameter.numel * sdk::size_of(parameter.dtype) >= limits.alone_size;
  return is_large && limits.alone_size > 0 && !limits.one_bucket;
}

}  // namespace

std::vector<BucketPlan> layout_buckets(std::span<const LayoutParameter> order, const LayoutLimits& limits) {
  const uint64_t first_size = limits.first_size == 0 ? limits.size : limits.first_size;
  std::vector<BucketPlan> closed;
  // A device counts by its first parameter: ranks may number their devices in different ways.
  std::vector<Device> devices;
  std::map<std::tuple<uint32_t, int32_t, size_t>, BucketPlan> open;  // by phase, dtype, then device
  for (const LayoutParameter& parameter : order) {
    const bool is_alone = stands_alone(parameter, limits);
    const auto device = static_cast<size_t>(std::ranges::find(devices, parameter.device) - devices.begin());
    if (device == devices.size()) devices.push_back(parameter.device);
    const std::tuple key{parameter.phase, parameter.dtype, device};
    BucketPlan own;
    BucketPlan& bucket = is_alone ? own : open[key];
    bucket.dtype = parameter.dtype;
    bucket.phase = parameter.phase;
    bucket.device = parameter.device;
    bucket.parts.push_back({parameter.id, bucket.numel, parameter.numel, parameter.name});
    bucket.numel += parameter.numel;
    const uint64_t limit = closed.empty() ? first_size : limits.size;
    if (!is_alone && (limits.one_bucket || bucket.numel * sdk::size_of(bucket.dtype) < limit)) continue;
    close(std::move(bucket), limits, closed);
    if (!is_alone) open.erase(key);
  }
  for (auto& [key, bucket] : open) close(std::move(bucket), limits, closed);
  return closed;
}

}  // namespace cohort::host
