// Memory of tensors and of buckets on the devices of a rank.
#pragma once

#include <cstdint>
#include <optional>

#include <cohort/runtime.hpp>

namespace cohort {

/// Adds up the devices of this rank; in MiB.
struct DeviceMemory {
  double now = 0;
  double peak = 0;  ///< since the process began; the sum of the tensors' peak and that of buckets from the collective
};

/// Returns nothing for a CPU, and for a device whose backend counts no memory.
std::optional<DeviceMemory> device_memory(const Runtime& runtime);

/// Return the bytes that tensors have on a device now, and had at most since forget_peak() or the start of the process;
/// 0 for a CPU, and if the backend of the device counts no memory.
uint64_t bytes_now(c10::Device device);
uint64_t peak_bytes(c10::Device device);
void forget_peak(c10::Device device);

/// Gives memory that the backend keeps for later tensors back to the device.
void release_kept_memory(c10::Device device);

/// Returns the bytes of a device that this process has or may ask for, less a tenth of the device for memory that the
/// backend does not count; 0 for a CPU, and if the backend counts no memory.
uint64_t usable_bytes(c10::Device device);

}  // namespace cohort
