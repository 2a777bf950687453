#include "selection/strategy_choice.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/uses.hpp>

#include "selection/names.hpp"
#include "selection/tables.hpp"
#include "selection/wording.hpp"

namespace cohort::host {
namespace {

/// What this job asks of its strategy, in words, with the flag or variable that asks for it.
using Demands = std::vector<std::pair<UseQuery, std::string>>;

Demands demands_of(const Selection& selection, const Options& options, const AcceleratorChoice& accelerator,
                   const Topology& topology) {
  const bool is_launched = topology.launcher != Launcher::kNone;
  const int devices = static_cast<int>(selection.device_ids.size()) * selection.num_nodes;
  UseQuery query{.num_nodes = selection.num_nodes};
  if (is_launched) query.world_size = topology.world_size;
  if (is_launched) query.local_world_size = topology.local_world_size;
  Demands demands;
  const auto add = [&](int32_t use, int64_t value, std::string words) {
    query.use = use;
    query.value = value;
    demands.emplace_back(query, std::move(words));
  };
  if (selection.num_nodes > 1) {
    const std::string place = is_launched ? decided_by(topology, "num_nodes") : place_of(options, "num-nodes");
    add(COHORT_USE_NODES, selection.num_nodes, "train on " + counted(selection.num_nodes, "node") + " (" + place + ")");
  }
  if (is_launched && topology.world_size > 1) {
    add(COHORT_USE_LAUNCHED, topology.world_size,
        "be one of " + counted(topology.world_size, "rank") + " (" + decided_by(topology, "world_size") + ")");
  }
  if (!is_launched && devices > 1) {
    add(COHORT_USE_ALONE, devices, "use " + counted(devices, "device") + " without a launcher");
  }
  add(COHORT_USE_DEVICE_TYPE, accelerator.device_type, "use accelerator " + accelerator.name);
  return demands;
}

/// Why a strategy cannot serve the job; empty if it can.
struct Objection {
  std::string reason;
  std::string text;  ///< the same with what to do
  std::string flag;  ///< that chose who objects
};

/// The job, and who can be asked about it.
struct Job {
  PluginHost& plugins;
  const Options& options;
  const std::vector<Spec>& layers;
  Demands demands;
  const StartingRanks& starting;
};

/// Returns the objection to the first demand that the strategy or a layer does not meet.
Objection objection(const Job& job, const StrategySpec& strategy) {
  const StrategySpec filled = with_table(job.options, "strategy", strategy);
  Demands demands = job.demands;
  if (!job.layers.empty()) {
    demands.emplace_back(UseQuery{.use = COHORT_USE_BELOW}, "work over strategy '" + to_string(strategy) + "'");
  }
  for (const auto& [query, words] : demands) {
    const Answer answer = ask_strategy(job.plugins, filled, job.layers, query);
    if (answer.is_no()) return {answer.reason(words), answer.text(words), answer.flag};
  }
  if (strategy.name != kSpawningStrategy) return {};
  if (const std::string& why = job.starting.objection_to_fork; !why.empty()) {
    const std::string reason = strategy.name + " is not possible: " + why;
    return {reason, reason, "strategy"};
  }
  const Answer fork = ask_strategy(job.plugins, filled, job.layers, {.use = COHORT_USE_FORK});
  if (!fork.is_no()) return {};
  return {fork.reason(kForkWords), fork.text(kForkWords), fork.flag};
}

/// A plugin that is missing, or broken and not named by the user, is passed over.
std::string absence(PluginHost& plugins, const std::string& strategy, bool is_named) {
  try {
    return plugins.find(Kind::kStrategy, strategy) == nullptr
               ? plugins.why_missing(strategy, strategy + " is not installed")
               : "";
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
  // The releases that had these spellings, but for that of the collective, had dp as their default.
  const auto older =
      std::ranges::find_if(options.older_spellings, [](const auto& one) { return one.first != "collective"; });
  if (older != options.older_spellings.end()) {
    return {StrategySpec(kReplicasStrategy), "the default beside " + older->second, true};
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

/// Ranks that cannot be started by executing the program again are forked, where that can be.
void fork_instead(const Job& job, Wanted& wanted, const Topology& topology) {
  const bool starts = wanted.strategy.name == kManyDevicesStrategy && topology.launcher == Launcher::kNone;
  if (!starts || job.starting.by_exec) return;
  StrategySpec spawning = wanted.strategy;
  spawning.name = kSpawningStrategy;
  if (!absence(job.plugins, spawning.name, false).empty() || !objection(job, spawning).text.empty()) return;
  wanted.strategy = std::move(spawning);
  wanted.reason = std::string(kManyDevicesStrategy) + " is not possible: this program cannot be executed again";
}

/// Returns why the wanted strategy gives way to the one for many devices; empty if it serves.
std::string reason_to_give_way(const Job& job, const Wanted& wanted) {
  if (!wanted.gives_way) return {};
  const std::string missing = absence(job.plugins, wanted.strategy.name, job.options.strategy.has_value());
  return missing.empty() ? objection(job, wanted.strategy).reason : missing;
}

}  // namespace

void choose_strategy(Selection& selection, PluginHost& plugins, const Options& options,
                     const AcceleratorChoice& accelerator, const Topology& topology, const StartingRanks& starting) {
  Wanted wanted = wanted_strategy(selection, options, topology);
  const Job job{plugins, options, selection.layers, demands_of(selection, options, accelerator, topology), starting};
  const std::string why_not = reason_to_give_way(job, wanted);
  if (!why_not.empty()) {
    wanted.strategy.name = kManyDevicesStrategy;
    wanted.reason += (wanted.reason.empty() ? "" : "; ") + why_not;
  }
  if (!wanted.gives_way || !why_not.empty()) {
    const Objection refused = objection(job, wanted.strategy);
    if (!refused.text.empty()) throw UserError(place_of(options, refused.flag) + ": " + refused.text);
  }
  fork_instead(job, wanted, topology);
  if (!wanted.reason.empty()) {
    const bool is_warning = !why_not.empty() && wanted.is_asked_for;
    (is_warning ? selection.warnings : selection.reasons)
        .push_back("Using strategy " + wanted.strategy.name + ": " + wanted.reason);
  }
  selection.strategy = with_table(options, "strategy", std::move(wanted.strategy));
}

}  // namespace cohort::host
