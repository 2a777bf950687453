// What the descriptor of a plugin must hold before the host uses anything in it.
#pragma once

#include <string>
#include <string_view>

#include <cohort/api/plugin.h>

namespace cohort::host {

/// Empty where the descriptor in the file cohort_NAME.so can be used; else what is wrong and how to mend it. Reads only
/// fields that the descriptor's own sizes cover.
std::string descriptor_problem(const cohort_plugin& plugin, std::string_view name);

/// The component of one kind, or null. The descriptor has passed the checks.
const cohort_component* component_of(const cohort_plugin& plugin, int32_t kind);

/// "0.1" for an ABI version number.
std::string abi_text(uint32_t abi);

}  // namespace cohort::host
