#include "report/device_memory.hpp"

#include <algorithm>

#include <c10/core/CachingDeviceAllocator.h>

namespace cohort {
namespace {

constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// Returns null for a CPU, and for a device whose backend counts no memory.
c10::DeviceAllocator* allocator_of(c10::Device device) {
  return device.is_cpu() ? nullptr : dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
}

}  // namespace

std::optional<DeviceMemory> device_memory(const Runtime& runtime) {
  c10::DeviceAllocator* const allocator = allocator_of(runtime.device());
  if (!allocator) return std::nullopt;
  constexpr double kMiB = 1024.0 * 1024.0;
  DeviceMemory memory;
  for (const c10::Device device : runtime.devices()) {
    const auto allocated = allocator->getDeviceStats(device.index()).allocated_bytes[kAll];
    memory.now += static_cast<double>(allocated.current) / kMiB;
    memory.peak += static_cast<double>(allocated.peak) / kMiB;
  }
  return memory;
}

uint64_t bytes_now(c10::Device device) {
  c10::DeviceAllocator* const allocator = allocator_of(device);
  if (!allocator) return 0;
  return static_cast<uint64_t>(allocator->getDeviceStats(device.index()).allocated_bytes[kAll].current);
}

uint64_t peak_bytes(c10::Device device) {
  c10::DeviceAllocator* const allocator = allocator_of(device);
  if (!allocator) return 0;
  return static_cast<uint64_t>(allocator->getDeviceStats(device.index()).allocated_bytes[kAll].peak);
}

void forget_peak(c10::Device device) {
  if (c10::DeviceAllocator* const allocator = allocator_of(device)) allocator->resetPeakStats(device.index());
}

uint64_t usable_bytes(c10::Device device) {
  c10::DeviceAllocator* const allocator = allocator_of(device);
  if (!allocator) return 0;
  const auto [free, total] = allocator->getMemoryInfo(device.index());
  const auto stats = allocator->getDeviceStats(device.index());
  const auto own = std::max(stats.reserved_bytes[kAll].current, stats.allocated_bytes[kAll].current);
  const uint64_t all = free + static_cast<uint64_t>(own), reserve = total / 10;
  return all > reserve ? all - reserve : 1;
}

}  // namespace cohort
