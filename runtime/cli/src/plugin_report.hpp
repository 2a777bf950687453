// What a plugin says about itself, as JSON. Opens the plugin in this process: call it through in_child.
#pragma once

#include <span>

#include <cohort/host/plugin_host.hpp>
#include <cohort/host/spec.hpp>

#include "opened_apart.hpp"

namespace cohort::cli {

/// Returns whether the component is a layer for any strategy.
bool is_free_layer(const cohort_component& component);

/// {file, id, version, vendor, license, abi, hash, components: [{kind, name, summary, inherits, variants, options,
/// slots}]} for the plugin that `spec` names. Slots, for strategies only, say which layer fills which, with `layers` on
/// top. Throws what opening throws.
Json report_plugin(host::PluginHost& plugins, const Spec& spec, std::span<const Spec> layers);

}  // namespace cohort::cli
