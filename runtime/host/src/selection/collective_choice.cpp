#include "selection/collective_choice.hpp"

#include <algorithm>

#include <cohort/api/tensor.h>
#include <cohort/host/error.hpp>
#include <cohort/host/uses.hpp>

#include "selection/installed.hpp"
#include "selection/names.hpp"
#include "selection/tables.hpp"
#include "selection/wording.hpp"

namespace cohort::host {
namespace {

/// Asks whether a collective can serve.
Answer can_serve(PluginHost& plugins, const cohort_component& component, const CollectiveSpec& spec,
                 const Wiring& wiring) {
  return ask_collective(
      plugins, component, spec, wiring.device_type,
      {.world_size = wiring.world_size, .num_nodes = wiring.num_nodes, .local_world_size = wiring.local_world_size});
}

/// Returns why a collective that the user did not name cannot serve; empty if it can. A plugin that is missing or
/// refused is passed over.
std::string objection(PluginHost& plugins, const Options& options, const std::string& name, const Wiring& wiring) {
  try {
    const cohort_component* component = plugins.find(Kind::kCollective, name);
    if (component == nullptr) return plugins.why_missing(name, "it is not installed");
    return can_serve(plugins, *component, with_table(options, "collective", CollectiveSpec(name)), wiring).why;
  } catch (const PluginRefused& refused) {
    return refused.what();
  }
}

/// Returns whether the plugin holds a collective that can serve and be chosen although nobody names it.
bool serves_unnamed(PluginHost& plugins, const std::string& name, const Wiring& wiring) {
  try {
    const cohort_component* component = plugins.find(Kind::kCollective, name);
    const CollectiveSpec spec(name);
    return component != nullptr && !ask_if_chosen_unnamed(plugins, *component, spec).is_no() &&
           !can_serve(plugins, *component, spec, wiring).is_no();
  } catch (const Error&) {
    return false;
  }
}

/// The same job on CPU memory, through which a device's tensors can be staged.
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
  const CollectiveSpec filled = with_table(options, "collective", *options.collective);
  const Answer answer = can_serve(plugins, component, filled, wiring);
  if (!answer.is_no() || !can_serve(plugins, component, filled, staged(wiring)).is_no()) return *options.collective;
  throw UserError(place_of(options, "collective") + ": " + answer.text("serve this job"));
}

}  // namespace

CollectiveSpec choose_collective(PluginHost& plugins, const Options& options, const Wiring& wiring,
                                 std::string_view preferred, std::vector<std::string>& reasons) {
  if (options.collective) return given_collective(plugins, options, wiring, reasons);
  if (wiring.world_size == 1) return {};
  const bool is_cpu = wiring.device_type == COHORT_DEVICE_CPU;
  const auto names = names_in(!preferred.empty() ? preferred
                              : is_cpu           ? kDefaultCollectives
                                                 : kDefaultDeviceCollectives);
  std::string refused;
  const auto choose = [&](const std::string& name, const std::string& how) {
    reasons.push_back("Using collective " + name + how + (refused.empty() ? "" : ": not" + refused));
    return CollectiveSpec(name);
  };
  for (const std::string& name : names) {
    const std::string why_not = objection(plugins, options, name, wiring);
    if (why_not.empty()) return choose(name, "");
    refused += (refused.empty() ? " " : ", ") + name + " (" + why_not + ")";
  }
  const auto serves = [&](const std::string& name) { return serves_unnamed(plugins, name, wiring); };
  if (const std::string name = first_installed(plugins, Scope::kAll, names, serves); !name.empty()) {
    return choose(name, "");
  }
  for (const std::string& name : wiring.can_stage ? names : std::vector<std::string>{}) {
    if (objection(plugins, options, name, staged(wiring)).empty()) return choose(name, " through pinned host memory");
  }
  throw UserError("no collective can serve " + counted(wiring.world_size, "rank") + " on " +
                  counted(wiring.num_nodes, "node") + ": not" + refused +
                  "; install one that can, or name it with --collective");
}

}  // namespace cohort::host
