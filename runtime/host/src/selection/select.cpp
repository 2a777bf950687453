#include <string>

#include <cohort/host/communicator.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/machine.hpp>
#include <cohort/host/selection.hpp>
#include <cohort/host/uses.hpp>

#include "selection/collective_choice.hpp"
#include "selection/devices.hpp"
#include "selection/names.hpp"
#include "selection/strategy_choice.hpp"
#include "selection/tables.hpp"
#include "selection/wording.hpp"

namespace cohort::host {
namespace {

bool is_launched(const Topology& topology) {
  return topology.launcher != Launcher::kNone;
}

std::vector<std::string> tables_of(const Selection& selection) {
  std::vector<std::string> tables{"strategy." + selection.strategy.name, "collective." + selection.collective.name};
  for (const Spec& layer : selection.layers) tables.push_back("strategy." + layer.name);
  return tables;
}

int choose_num_nodes(const Options& options, const Topology& topology) {
  if (!is_launched(topology)) return options.num_nodes;
  if (is_given(options, "num-nodes") && options.num_nodes != topology.num_nodes) {
    throw UserError(place_of(options, "num-nodes") + "=" + std::to_string(options.num_nodes) + " contradicts " +
                    decided_by(topology, "num_nodes") + ", which make " + counted(topology.num_nodes, "node") +
                    "; leave the flag out, or start as many nodes");
  }
  return topology.num_nodes;
}

/// Returns whether a launcher starts the ranks, each with one device: the strategy cannot start any.
bool needs_a_launcher(PluginHost& plugins, const Selection& selection) {
  return ask_strategy(plugins, selection.strategy, {}, {.use = COHORT_USE_ALONE}).is_no();
}

/// Throws UserError if the devices cannot compute in the 16-bit type of --precision.
void check_precision(PluginHost& plugins, const Options& options, const std::string& accelerator) {
  const std::string_view precision = to_string(options.precision);
  const bool is_half = precision.starts_with("16"), is_bfloat = precision.starts_with("bf16");
  if (!is_half && !is_bfloat) return;
  const UseQuery query{.use = COHORT_USE_PRECISION, .value = is_half ? COHORT_FLOAT16 : COHORT_BFLOAT16};
  const Answer answer = ask_accelerator(plugins, accelerator, query);
  if (!answer.is_no()) return;
  throw UserError(place_of(options, "precision") + "=" + std::string(precision) + ": " +
                  answer.text(is_half ? "compute in float16" : "compute in bfloat16"));
}

/// Throws UserError if a plugin cannot serve what the strategy plans.
void check_plan(PluginHost& plugins, const Options& options, const Selection& selection) {
  const auto require = [&](const UseQuery& query, const std::string& words) {
    Answer answer = ask_strategy(plugins, selection.strategy, selection.layers, query);
    if (!answer.is_no()) answer = ask_accelerator(plugins, selection.accelerator, query);
    if (answer.is_no()) throw UserError(place_of(options, answer.flag) + ": " + answer.text(words));
  };
  check_precision(plugins, options, selection.accelerator);
  UseQuery query{.num_nodes = selection.num_nodes, .replicas = selection.replicas};
  query.world_size = selection.world_size();
  query.local_world_size = selection.processes_per_node;
  if (selection.launch == COHORT_LAUNCH_FORK) {
    query.use = COHORT_USE_FORK;
    require(query, std::string(kForkWords));
  }
  if (selection.replicas > 1) {
    query.use = COHORT_USE_REPLICAS;
    query.value = selection.replicas;
    require(query, "serve " + counted(selection.replicas, "replica") + " of the model in a process");
  }
}

class Plan {
 public:
  Plan(const Selection& selection, const AcceleratorChoice& accelerator, const Topology& topology,
       const Planner& planner)
      : strategy_(selection.strategy.name), topology_(topology), num_nodes_(selection.num_nodes) {
    cohort_job job{};
    job.struct_size = sizeof job;
    job.device_type = accelerator.device_type;
    job.num_devices = static_cast<int32_t>(selection.device_ids.size());
    job.num_nodes = selection.num_nodes;
    job.external_world_size = is_launched(topology) ? topology.world_size : 0;
    num_devices_ = job.num_devices;
    plan_ = planner(selection.strategy, selection.layers, job);
    check_sense();
  }

  bool fits_launcher() const {
    return !is_launched(topology_) || (plan_.processes_per_node == topology_.local_world_size &&
                                       plan_.processes_per_node * num_nodes_ == topology_.world_size);
  }

  [[noreturn]] void refuse_launcher(const Options& options) const {
    if (topology_.local_world_size * num_nodes_ != topology_.world_size) {
      throw UserError("nodes have different numbers of ranks (" + decided_by(topology_, "local_world_size") + ", " +
                      decided_by(topology_, "world_size") + "); start equally many on each");
    }
    throw UserError(place_of(options, "devices") + " gives " + counted(num_devices_, "device") +
                    " of each node, for which strategy '" + strategy_ + "' needs " +
                    counted(plan_.processes_per_node, "rank") + ", which contradicts " +
                    decided_by(topology_, "local_world_size") + "; leave the flag out, or start as many ranks");
  }

  void apply_to(Selection& selection) const {
    selection.processes_per_node = plan_.processes_per_node;
    selection.replicas = plan_.replicas_per_process;
    selection.parts = static_cast<int>(plan_.parts);
    selection.launch = is_launched(topology_) ? COHORT_LAUNCH_NONE : plan_.launch;
  }

  std::string_view collectives() const { return plan_.collectives == nullptr ? "" : plan_.collectives; }

 private:
  /// A plan comes from a plugin.
  void check_sense() const {
    if (plan_.replicas_per_process > 1 && plan_.parts > 1) {
      throw UserError("strategy '" + strategy_ + "' plans " + counted(plan_.replicas_per_process, "replica") + " and " +
                      counted(static_cast<int>(plan_.parts), "part") +
                      " of the model in each process, which has either; ask for fewer devices, or tell its author");
    }
    const bool counts = plan_.processes_per_node >= 1 && plan_.replicas_per_process >= 1 &&
                        int64_t{plan_.processes_per_node} * plan_.replicas_per_process * parts() == num_devices_;
    const bool forks = plan_.launch == COHORT_LAUNCH_FORK && num_nodes_ == 1;
    const bool alone = plan_.processes_per_node * num_nodes_ == 1;
    const bool can_be_none = plan_.launch == COHORT_LAUNCH_NONE && (alone || is_launched(topology_));
    if (counts && (plan_.launch == COHORT_LAUNCH_EXEC || forks || can_be_none)) return;
    throw UserError("strategy '" + strategy_ + "' plans " + std::to_string(plan_.processes_per_node) + " x " +
                    std::to_string(plan_.replicas_per_process) + " x " + std::to_string(parts()) +
                    " processes, replicas and parts of the model (launch " + std::to_string(plan_.launch) + ") for " +
                    counted(num_devices_, "device") + " on each of " + counted(num_nodes_, "node") +
                    ", which does not fit; ask for other devices, or tell its author");
  }

  uint32_t parts() const { return std::max(plan_.parts, 1u); }

  std::string strategy_;
  const Topology& topology_;
  int num_nodes_;
  int num_devices_ = 0;
  StrategyPlan plan_;
};

/// The plan for the devices asked for; where the launcher started other processes and nobody insists on the devices,
/// the plan for one device of each.
Plan make_plan(Selection& selection, const AcceleratorChoice& accelerator, const Options& options,
               const Topology& topology, const Planner& planner) {
  Plan plan(selection, accelerator, topology, planner);
  if (plan.fits_launcher()) return plan;
  if (is_given(options, "devices")) plan.refuse_launcher(options);
  selection.device_ids = devices_of_ranks(accelerator, topology);
  Plan second(selection, accelerator, topology, planner);
  if (!second.fits_launcher()) second.refuse_launcher(options);
  return second;
}

}  // namespace

Selection select(PluginHost& plugins, const Options& options, const Topology& topology, const Planner& planner,
                 const StartingRanks& starting) {
  if (options.threads) check_workers(*options.threads, place_of(options, "threads"), "threads for each rank");
  Selection selection;
  const AcceleratorChoice accelerator = choose_accelerator(plugins, options);
  selection.accelerator = accelerator.name;
  selection.torch = accelerator.torch;
  if (!accelerator.reason.empty()) {
    selection.reasons.push_back("Using accelerator " + accelerator.name + ": " + accelerator.reason);
  }
  selection.num_nodes = choose_num_nodes(options, topology);
  selection.device_ids = choose_devices(accelerator, options, topology);
  for (const Spec& layer : options.layers) selection.layers.push_back(with_table(options, "strategy", layer));
  choose_strategy(selection, plugins, options, accelerator, topology, starting);
  if (topology.world_size > 1 && is_launched(topology) && needs_a_launcher(plugins, selection)) {
    selection.device_ids = one_device_each(accelerator, options, topology, selection.strategy.name);
  }
  const Plan plan = make_plan(selection, accelerator, options, topology, planner);
  plan.apply_to(selection);
  check_plan(plugins, options, selection);
  if (selection.replicas > 1) {
    selection.warnings.push_back("Strategy " + selection.strategy.name + ": " + std::string(kAdviceOnReplicas));
  }
  const Wiring wiring{accelerator.device_type, selection.world_size(), selection.num_nodes,
                      selection.processes_per_node, accelerator.can_stage};
  selection.collective = choose_collective(plugins, options, wiring, plan.collectives(), selection.reasons);
  if (!selection.collective.name.empty()) {
    selection.collective = with_tables_within(plugins, options, selection.collective);
    open_collective(plugins, selection.collective);
  }
  check_other_tables(plugins, options, tables_of(selection), selection.warnings);
  return selection;
}

}  // namespace cohort::host
