#include <cohort/host/accelerator_devices.hpp>

#include <cstring>

#include "accelerator/accelerator.hpp"

namespace cohort::host {

std::vector<DeviceFacts> devices_of(PluginHost& plugins, const cohort_component& component) {
  Accelerator accelerator(component, HostObject::of(plugins.plain_host()));
  std::vector<DeviceFacts> devices(static_cast<std::size_t>(accelerator.count_devices()));
  for (std::size_t index = 0; index < devices.size(); ++index) {
    const cohort_device_info info = accelerator.device_info(static_cast<int>(index));
    devices[index] = {std::string(info.name, ::strnlen(info.name, sizeof info.name)), info.memory_bytes};
  }
  return devices;
}

}  // namespace cohort::host
