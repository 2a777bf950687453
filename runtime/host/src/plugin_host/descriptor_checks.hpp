// What the descriptor of a plugin must hold before the host uses anything in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cohort/api/plugin.h>

namespace cohort::host {

/// Returns "" if a host of this ABI can use the descriptor in the file cohort_NAME.so, else the problem and its remedy.
/// Reads only fields that the descriptor's own sizes cover.
std::string descriptor_problem(const cohort_plugin& plugin, std::string_view name,
                               uint32_t host_abi = COHORT_ABI_VERSION);

/// Returns the parts of a checked descriptor that this host does not know and leaves out: "slots of its strategy",
/// "fields of its cohort_plugin".
std::vector<std::string> ignored_parts(const cohort_plugin& plugin);

/// Returns whether this host has components of a kind.
bool is_known_kind(int32_t kind);

/// Returns the component of one kind, or null. The descriptor has passed the checks.
const cohort_component* component_of(const cohort_plugin& plugin, int32_t kind);

/// Returns "0.1" for an ABI version number.
std::string abi_text(uint32_t abi);

}  // namespace cohort::host
