#include "report/device_memory.hpp"

#include <c10/core/CachingDeviceAllocator.h>

namespace cohort {

std::optional<DeviceMemory> device_memory(const Runtime& runtime) {
  if (runtime.device().is_cpu()) return std::nullopt;
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(runtime.device().type()));
  if (!allocator) return std::nullopt;
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  constexpr double kMiB = 1024.0 * 1024.0;
  DeviceMemory memory;
  for (const c10::Device device : runtime.devices()) {
    const auto allocated = allocator->getDeviceStats(device.index()).allocated_bytes[kAll];
    memory.now += static_cast<double>(allocated.current) / kMiB;
    memory.peak += static_cast<double>(allocated.peak) / kMiB;
  }
  return memory;
}

}  // namespace cohort
