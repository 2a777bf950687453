// Which strategy, accelerator and collective a run uses, and why. The only place in the runtime that knows plugin names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cohort/api/strategy.h>
#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>
#include <cohort/host/plugin_host.hpp>

namespace cohort::host {

/// What was chosen, before anything is launched.
struct Selection {
  StrategySpec strategy;
  std::vector<Spec> layers;
  CollectiveSpec collective;       ///< name "" where the plan needs none
  std::string accelerator;
  std::vector<int> device_ids;     ///< of this node, in the order of local ranks
  int processes_per_node = 1;
  int replicas = 1;
  int num_nodes = 1;
  int launch = COHORT_LAUNCH_NONE;
  std::vector<std::string> reasons;  ///< lines for the log: what was decided and why

  int world_size() const { return processes_per_node * num_nodes; }
};

/// Resolves defaults, asks the strategy for its plan and checks it against what a launcher has started. Throws UserError
/// for a combination that cannot be (devices, world size, wire), naming flag or variable.
Selection select(PluginHost& plugins, const Options& options, const Topology& topology);

}  // namespace cohort::host
