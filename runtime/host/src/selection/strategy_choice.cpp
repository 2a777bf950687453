#include "selection/strategy_choice.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <cohort/host/combinations.hpp>
#include <cohort/host/error.hpp>

#include "selection/names.hpp"
#include "selection/wording.hpp"

namespace cohort::host {
namespace {

/// What this job asks of its strategy, in words, with the flag or variable that asks for it.
using Demands = std::vector<std::pair<Use, std::string>>;

Demands demands_of(const Selection& selection, const Options& options, const AcceleratorChoice& accelerator,
                   const Topology& topology) {
  const bool is_launched = topology.launcher != Launcher::kNone;
  const int devices = static_cast<int>(selection.device_ids.size()) * selection.num_nodes;
  Demands demands;
  if (selection.num_nodes > 1) {
    const std::string place = is_launched ? decided_by(topology, "num_nodes") : place_of(options, "num-nodes");
    demands.emplace_back(Use::kNodes, "train on " + counted(selection.num_nodes, "node") + " (" + place + ")");
  }
  if (is_launched && topology.world_size > 1) {
    demands.emplace_back(Use::kLaunched, "be one of " + counted(topology.world_size, "rank") + " (" +
                                             decided_by(topology, "world_size") + ")");
  }
  if (!is_launched && devices > 1)
    demands.emplace_back(Use::kAlone, "use " + counted(devices, "device") + " without a launcher");
  if (!accelerator.is_unlimited) demands.emplace_back(Use::kGpu, "use accelerator " + accelerator.name);
  return demands;
}

/// "dp cannot train on 2 nodes (--num-nodes): WHY; FIX" for the first demand that it does not meet; else empty.
std::string objection(const std::string& strategy, const Demands& demands) {
  for (const auto& [use, words] : demands) {
    const auto refusal = refusal_of(strategy, use);
    if (!refusal.empty()) return strategy + " cannot " + words + ": " + std::string(refusal);
  }
  return {};
}

/// A plugin that is missing, or broken and not named by the user, is passed over.
std::string absence(PluginHost& plugins, const std::string& strategy, bool is_named) {
  try {
    return plugins.find(Kind::kStrategy, strategy) == nullptr ? strategy + " is not installed" : "";
  } catch (const PluginRefused& refused) {
    if (is_named) throw;
    return refused.what();
  }
}

struct Wanted {
  StrategySpec strategy;
  std::string reason;        ///< empty where the user chose it
  bool gives_way = false;    ///< to ddp, where it cannot be
  bool is_asked_for = true;  ///< the change is then worth a warning
};

Wanted default_strategy(const Selection& selection, const Options& options, const Topology& topology) {
  const int devices = static_cast<int>(selection.device_ids.size());
  if (topology.world_size > 1) {
    return {StrategySpec(kManyDevicesStrategy), "started by " + std::string(to_string(topology.launcher)) + " with " +
                                                    counted(topology.world_size, "rank")};
  }
  if (devices * selection.num_nodes == 1) return {StrategySpec(kOneDeviceStrategy), "one device"};
  if (!options.older_spellings.empty()) {
    return {StrategySpec(kReplicasStrategy), "the default beside " + options.older_spellings.begin()->second, true};
  }
  if (selection.num_nodes > 1) return {StrategySpec(kManyDevicesStrategy), counted(selection.num_nodes, "node")};
  return {StrategySpec(kSpawningStrategy), counted(devices, "device") + " on one node", true, false};
}

Wanted wanted_strategy(const Selection& selection, const Options& options, const Topology& topology) {
  if (!options.strategy) return default_strategy(selection, options, topology);
  const std::string& name = options.strategy->name;
  const bool is_older = options.older_spellings.contains("strategy");
  return {*options.strategy, "", name == kSpawningStrategy || (is_older && name == kReplicasStrategy)};
}

/// Why the job cannot be trained with this strategy; empty where it can.
std::string objection(const std::string& strategy, const Demands& demands, const StartingRanks& starting) {
  std::string why_not = objection(strategy, demands);
  if (why_not.empty() && strategy == kSpawningStrategy && !starting.objection_to_fork.empty()) {
    why_not = strategy + " is not possible: " + starting.objection_to_fork;
  }
  return why_not;
}

/// Ranks that cannot be started by executing the program again are forked, where that can be.
void fork_instead(Wanted& wanted, const Demands& demands, const Topology& topology, const StartingRanks& starting) {
  const bool starts = wanted.strategy.name == kManyDevicesStrategy && topology.launcher == Launcher::kNone;
  if (!starts || starting.by_exec || !objection(kSpawningStrategy, demands, starting).empty()) return;
  wanted.strategy.name = kSpawningStrategy;
  wanted.reason = std::string(kManyDevicesStrategy) + " is not possible: this program cannot be executed again";
}

}  // namespace

void choose_strategy(Selection& selection, PluginHost& plugins, const Options& options,
                     const AcceleratorChoice& accelerator, const Topology& topology, const StartingRanks& starting) {
  Wanted wanted = wanted_strategy(selection, options, topology);
  std::string& name = wanted.strategy.name;
  const Demands demands = demands_of(selection, options, accelerator, topology);
  std::string why_not = objection(name, demands, starting);
  if (!wanted.gives_way && !why_not.empty()) throw UserError(place_of(options, "strategy") + ": " + why_not);
  why_not = why_not.substr(0, why_not.rfind("; "));  // without the way out, which is taken here
  if (wanted.gives_way && why_not.empty()) why_not = absence(plugins, name, options.strategy.has_value());
  if (!why_not.empty()) {
    name = kManyDevicesStrategy;
    wanted.reason += (wanted.reason.empty() ? "" : "; ") + why_not;
  }
  fork_instead(wanted, demands, topology, starting);
  if (!wanted.reason.empty()) {
    const bool is_warning = !why_not.empty() && wanted.is_asked_for;
    (is_warning ? selection.warnings : selection.reasons).push_back("Using strategy " + name + ": " + wanted.reason);
  }
  const auto row = std::ranges::find(combinations(), name, &Combination::strategy);
  if (row != combinations().end() && !row->advice.empty() && selection.device_ids.size() > 1) {
    selection.warnings.push_back("Strategy " + name + ": " + std::string(row->advice));
  }
  selection.strategy = std::move(wanted.strategy);
}

}  // namespace cohort::host
