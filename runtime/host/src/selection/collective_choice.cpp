#include "selection/collective_choice.hpp"

#include <algorithm>

#include <cohort/api/tensor.h>
#include <cohort/host/error.hpp>

#include "selection/names.hpp"
#include "selection/wording.hpp"

namespace cohort::host {
namespace {

/// Why a collective cannot serve; empty where it can.
std::string objection(const PluginHost& plugins, const cohort_component& component, const Wiring& wiring) {
  if (component.supports == nullptr) return {};
  cohort_query query{};
  query.struct_size = sizeof query;
  query.device_type = wiring.device_type;
  query.world_size = wiring.world_size;
  query.num_nodes = wiring.num_nodes;
  query.local_world_size = wiring.local_world_size;
  component.supports(plugins.plain_host(), &query);
  if (query.score > 0) return {};
  return query.reason != nullptr ? query.reason : "it gives no reason";
}

/// The same for a name that the user did not give: a plugin that is missing or broken is passed over.
std::string objection(PluginHost& plugins, const std::string& name, const Wiring& wiring) {
  try {
    const cohort_component* component = plugins.find(Kind::kCollective, name);
    return component == nullptr ? "it is not installed" : objection(plugins, *component, wiring);
  } catch (const PluginRefused& refused) {
    return refused.what();
  }
}

/// The same job on host memory, through which a device's tensors can be staged.
Wiring staged(Wiring wiring) {
  if (wiring.can_stage) wiring.device_type = COHORT_DEVICE_CPU;
  return wiring;
}

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (end > 0) names.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

CollectiveSpec given_collective(PluginHost& plugins, const Options& options, const Wiring& wiring,
                                std::vector<std::string>& reasons) {
  const cohort_component& component = plugins.open(Kind::kCollective, options.collective->name);
  if (wiring.world_size == 1) {
    reasons.push_back("Collective " + options.collective->name + " is not used: there is one rank");
    return {};
  }
  const std::string why_not = objection(plugins, component, wiring);
  if (why_not.empty() || objection(plugins, component, staged(wiring)).empty()) return *options.collective;
  throw UserError(place_of(options, "collective") + ": '" + options.collective->name + "' cannot serve this job (" +
                  why_not + "); leave it out for the runtime's choice");
}

}  // namespace

CollectiveSpec choose_collective(PluginHost& plugins, const Options& options, const Wiring& wiring,
                                 std::string_view preferred, std::vector<std::string>& reasons) {
  if (options.collective) return given_collective(plugins, options, wiring, reasons);
  if (wiring.world_size == 1) return {};
  const auto names = names_in(preferred.empty() ? kDefaultCollectives : preferred);
  std::string refused;
  for (const std::string& name : names) {
    const std::string why_not = objection(plugins, name, wiring);
    if (why_not.empty()) {
      reasons.push_back("Using collective " + name + (refused.empty() ? "" : ": not" + refused));
      return CollectiveSpec(name);
    }
    refused += (refused.empty() ? " " : ", ") + name + " (" + why_not + ")";
  }
  for (const std::string& name : wiring.can_stage ? names : std::vector<std::string>{}) {
    if (!objection(plugins, name, staged(wiring)).empty()) continue;
    reasons.push_back("Using collective " + name + " through pinned host memory: not" + refused);
    return CollectiveSpec(name);
  }
  throw UserError("no collective can serve " + counted(wiring.world_size, "rank") + " on " +
                  counted(wiring.num_nodes, "node") + ": not" + refused +
                  "; install one that can, or name it with --collective");
}

}  // namespace cohort::host
