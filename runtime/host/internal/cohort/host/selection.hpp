// Which strategy, accelerator and collective a run uses, and why. The only place in the runtime that knows plugin
// names.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/api/strategy.h>
#include <cohort/api/tensor.h>
#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>
#include <cohort/host/plugin_host.hpp>

namespace cohort::host {

/// The accelerator's devices as LibTorch names them.
struct TorchDeviceType {
  std::string name;                         ///< as c10::Device reads it
  int32_t device_type = COHORT_DEVICE_CPU;  ///< the same as COHORT_DEVICE_...
  std::string library;                      ///< file or name of a library to open first; empty: LibTorch knows the type
  std::string graphs{};                     ///< file that may capture their work (cohort/api/step_graph.h); or empty
};

/// What was chosen, before anything is launched.
struct Selection {
  StrategySpec strategy;
  std::vector<Spec> layers;
  CollectiveSpec collective;  ///< name "" where the plan needs none
  std::string accelerator;
  TorchDeviceType torch;
  std::vector<int> device_ids;  ///< of this node, in the order of local ranks
  int processes_per_node = 1;
  int replicas = 1;
  int parts = 0;  ///< of the model in each process, one on each of its devices; 0: it is not cut
  int num_nodes = 1;
  int launch = COHORT_LAUNCH_NONE;
  std::vector<std::string> reasons;   ///< lines for the log: what was decided and why
  std::vector<std::string> warnings;  ///< the same: what differs from what was asked for, and what to mind

  int world_size() const { return processes_per_node * num_nodes; }
};

/// The advice for strategies that run several replicas in a process.
constexpr std::string_view kAdviceOnReplicas =
    "of what replicas write into buffers and members only replica 0's is kept; ddp is recommended: each device "
    "then has a process of its own, which loads its data and waits for no other before gradients are averaged";

/// How this process can start ranks.
struct StartingRanks {
  bool by_exec = true;            ///< its program can be executed again
  std::string objection_to_fork;  ///< why its ranks must not be forked; empty: they may be
};

/// A strategy's plan, with the number of parts of the model in each process; 0: the strategy does not cut it.
struct StrategyPlan : cohort_plan {
  StrategyPlan(const cohort_plan& plan = {}, uint32_t parts_ = 0) : cohort_plan(plan), parts(parts_) {}
  uint32_t parts;
};

/// Returns the plan of a strategy with these free layers for a job; see plan_of in connected_rank.hpp.
using Planner = std::function<StrategyPlan(const StrategySpec&, std::span<const Spec> layers, const cohort_job&)>;

/// Resolves defaults, asks the strategy for its plan and checks it against what a launcher has started: a flag that is
/// not set follows the launcher. Opens accelerator, strategy and collective. Throws UserError for a combination that
/// cannot be (devices, world size, collective), naming flag or variable, and PluginRefused for a named plugin that
/// cannot be used.
Selection select(PluginHost& plugins, const Options& options, const Topology& topology, const Planner& planner,
                 const StartingRanks& starting = {});

}  // namespace cohort::host
