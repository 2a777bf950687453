// Memory of tensors and of buckets on the devices of a rank.
#pragma once

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

}  // namespace cohort
