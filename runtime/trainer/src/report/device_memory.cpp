#include "report/device_memory.hpp"

#include <algorithm>

#include <c10/core/CachingDeviceAllocator.h>

namespace cohort {
namespace {

constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// Returns null for a CPU, and if the backend of the device counts no memory.
c10::DeviceAllocator* allocator_of(c10::Device device) {
  return device.is_cpu() ? nullptr : dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
}

/// Returns zeros without an allocator that counts.
c10::CachingAllocator::Stat allocated_on(c10::Device device) {
  c10::DeviceAllocator* const allocator = allocator_of(device);
  return allocator ? allocator->getDeviceStats(device.index()).allocated_bytes[kAll] : c10::CachingAllocator::Stat{};
}

}  // namespace

std::optional<DeviceMemory> device_memory(const Runtime& runtime) {
  if (!allocator_of(runtime.device())) return std::nullopt;
  constexpr double kMiB = 1024.0 * 1024.0;
  DeviceMemory memory;
  for (const c10::Device device : runtime.devices()) {
    const auto allocated = allocated_on(device);
    memory.now += static_cast<double>(allocated.current) / kMiB;
    memory.peak += static_cast<double>(allocated.peak) / kMiB;
  }
  return memory;
}

uint64_t bytes_now(c10::Device device) {
  return static_cast<uint64_t>(allocated_on(device).current);
}

uint64_t peak_bytes(c10::Device device) {
  return static_cast<uint64_t>(allocated_on(device).peak);
}

void forget_peak(c10::Device device) {
  if (c10::DeviceAllocator* const allocator = allocator_of(device)) allocator->resetPeakStats(device.index());
}

void release_kept_memory(c10::Device device) {
  if (c10::DeviceAllocator* const allocator = allocator_of(device)) allocator->emptyCache();
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
