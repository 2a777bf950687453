// Which accelerator a run uses, and which of its devices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>
#include <cohort/host/plugin_host.hpp>
#include <cohort/host/selection.hpp>

namespace cohort::host {

struct AcceleratorChoice {
  std::string name;
  int32_t device_type = 0;
  TorchDeviceType torch{};
  int num_devices = 0;        ///< of this machine
  bool is_unlimited = false;  ///< CPU: as many "devices" as asked for
  bool can_stage = false;     ///< its tensors can go through pinned memory
  std::string reason{};       ///< empty where the user chose it
};

AcceleratorChoice choose_accelerator(PluginHost& plugins, const Options& options);

/// This node's devices in the order of local ranks.
std::vector<int> choose_devices(const AcceleratorChoice& accelerator, const Options& options, const Topology& topology);

/// Returns one device for each rank that a launcher has started on this node. Each rank's is its device 0 if the
/// launcher shows it its own alone.
std::vector<int> devices_of_ranks(const AcceleratorChoice& accelerator, const Topology& topology);

/// The devices of a strategy whose processes have one each, as many as a driver has started on this node. Throws
/// UserError where the user asks for others.
std::vector<int> one_device_each(const AcceleratorChoice& accelerator, const Options& options, const Topology& topology,
                                 const std::string& strategy);

}  // namespace cohort::host
