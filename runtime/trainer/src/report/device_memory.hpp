// Memory of tensors on the devices of a rank.
#pragma once

#include <optional>

#include <cohort/runtime.hpp>

namespace cohort {

/// Adds up the devices of this rank; in MiB.
struct DeviceMemory {
  double now = 0;
  double peak = 0;  ///< since the process began
};

/// Returns nothing for a CPU, and for a device whose backend counts no memory.
std::optional<DeviceMemory> device_memory(const Runtime& runtime);

}  // namespace cohort
