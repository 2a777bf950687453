// Chooses the collective of a job.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/options.hpp>
#include <cohort/host/plugin_host.hpp>

namespace cohort::host {

struct Wiring {
  int32_t device_type = 0;
  int world_size = 1;
  int num_nodes = 1;
  int local_world_size = 1;
  bool can_stage = false;  ///< a collective of CPU memory can serve the device
};

/// Returns the collective that the user gave, or the first of `preferred` ("shm,hier,gloo,nccl"; "": the host's list)
/// that can serve, or another installed one that can. One that takes the device's memory comes before one that has to
/// be staged. Adds to `reasons` if it was chosen. Throws UserError with the reason of each that cannot.
CollectiveSpec choose_collective(PluginHost& plugins, const Options& options, const Wiring& wiring,
                                 std::string_view preferred, std::vector<std::string>& reasons);

}  // namespace cohort::host
