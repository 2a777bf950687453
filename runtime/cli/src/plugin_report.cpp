#include "plugin_report.hpp"

#include <array>
#include <string>

#include <cohort/api/collective.h>
#include <cohort/api/strategy.h>
#include <cohort/host/accelerator_devices.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/strategy_layers.hpp>

namespace cohort::cli {
namespace {

constexpr std::array kKinds{host::Kind::kStrategy, host::Kind::kCollective, host::Kind::kAccelerator,
                            host::Kind::kLogger};

Json report_options(std::span<const cohort_option> options) {
  Json list = Json::array();
  for (const cohort_option& option : options) {
    if (option.flags & COHORT_OPTION_HIDDEN) continue;
    list.push_back({{"key", option.key},
                    {"type", option.type},
                    {"default", host::default_text(option)},
                    {"variants", option.variants ? option.variants : ""},
                    {"help", option.help}});
  }
  return list;
}

std::vector<host::LayerBlueprint> blueprints_of(host::PluginHost& plugins, const cohort_component& component,
                                                const Spec& spec, std::span<const Spec> layers) {
  if (!is_free_layer(component)) return host::resolve_layers(plugins, spec, layers);
  std::vector<host::LayerBlueprint> alone;  // over any strategy: what it leaves is shown as base's
  alone.push_back({component.name, static_cast<const cohort_strategy_vt*>(component.vtable), {}, ""});
  return alone;
}

void report_strategy(Json& report, host::PluginHost& plugins, const cohort_component& component, const Spec& spec,
                     std::span<const Spec> layers) {
  report["inherits"] = component.inherits == nullptr ? "base" : component.inherits;
  report["variants"] = host::inherited_variants(plugins, component);
  report["options"] = report_options(host::inherited_options(plugins, component));
  Json slots = Json::object();
  for (const auto& [slot, layer] : host::slot_owners(blueprints_of(plugins, component, spec, layers))) {
    slots[std::string(slot)] = layer;
  }
  report["slots"] = slots;
}

// The host composes a sum that the collective lacks, in rank order and rounded once.
Json report_sums(const cohort_component& component) {
  const auto& table = *static_cast<const cohort_collective_vt*>(component.vtable);
  const bool is_composed = !COHORT_HAS(&table, cohort_collective_vt, all_reduce);
  return {{"rank_ordered", is_composed || (table.flags & COHORT_COLLECTIVE_RANK_ORDERED) != 0},
          {"rounds_once", is_composed || (table.flags & COHORT_COLLECTIVE_ROUNDS_ONCE) != 0}};
}

void report_devices(Json& report, host::PluginHost& plugins, const cohort_component& component) {
  Json devices = Json::array();
  try {
    for (const host::DeviceFacts& device : host::devices_of(plugins, component)) {
      devices.push_back({{"name", device.name}, {"memory_bytes", device.memory_bytes}});
    }
  } catch (const Error& error) {  // of a driver, say: the plugin itself can be described all the same
    report["devices_problem"] = error.what();
  }
  report["devices"] = devices;
}

Json report_component(host::PluginHost& plugins, host::Kind kind, const cohort_component& component, const Spec& spec,
                      std::span<const Spec> layers) {
  Json report;
  report["kind"] = host::to_string(kind);
  report["name"] = component.name;
  report["summary"] = component.summary;
  if (kind == host::Kind::kStrategy) {
    report_strategy(report, plugins, component, spec, layers);
    return report;
  }
  Json variants = Json::array();
  for (const char* const* variant = component.variants; variant != nullptr && *variant != nullptr; ++variant) {
    variants.push_back(*variant);
  }
  report["variants"] = variants;
  report["options"] = report_options({component.options, component.num_options});
  if (kind == host::Kind::kCollective) report["sums"] = report_sums(component);
  if (kind == host::Kind::kAccelerator) report_devices(report, plugins, component);
  return report;
}

std::string text_or_none(const char* text) {
  return text ? text : "";
}

std::string abi_text(uint32_t abi) {
  return std::to_string(abi >> 16) + "." + std::to_string(abi & 0xffff);
}

Json report_file(const host::LoadedPlugin& plugin) {
  return {{"file", plugin.file.string()},
          {"id", plugin.descriptor->id},
          {"version", plugin.descriptor->version},
          {"vendor", text_or_none(plugin.descriptor->vendor)},
          {"license", text_or_none(plugin.descriptor->license)},
          {"abi", abi_text(plugin.descriptor->abi_built)},
          {"hash", plugin.content_hash}};
}

}  // namespace

bool is_free_layer(const cohort_component& component) {
  return component.inherits != nullptr && std::string_view(component.inherits) == "*";
}

Json report_plugin(host::PluginHost& plugins, const Spec& spec, std::span<const Spec> layers) {
  Json components = Json::array();
  Json report;
  for (const host::Kind kind : kKinds) {
    const cohort_component* component = plugins.find(kind, spec.name);
    if (component == nullptr) continue;
    // The named plugin is the first that was opened; parents and layers come later.
    if (report.empty()) report = report_file(plugins.loaded().front());
    components.push_back(report_component(plugins, kind, *component, spec, layers));
  }
  if (report.empty()) plugins.open(host::Kind::kStrategy, spec.name);  // throws, with what was looked for
  report["components"] = components;
  return report;
}

}  // namespace cohort::cli
