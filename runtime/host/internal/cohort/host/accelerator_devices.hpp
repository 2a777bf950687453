// The devices of this machine, as an accelerator describes them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cohort/host/plugin_host.hpp>

namespace cohort::host {

struct DeviceFacts {
  std::string name;  ///< "" where the accelerator does not tell
  uint64_t memory_bytes = 0;
};

/// Returns one entry for each device, in the order of their numbers. Throws an Error where the plugin cannot tell.
std::vector<DeviceFacts> devices_of(PluginHost& plugins, const cohort_component& accelerator);

}  // namespace cohort::host
