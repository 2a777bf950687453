// Opens a plugin file as a host does, for tests that drive its components through the C ABI alone.
#pragma once

#include <string>

#include <cohort/api/cohort.h>

namespace cohort::test {

/// The descriptor of a plugin file; throws std::runtime_error where the file is no plugin. Never unloaded.
const cohort_plugin& open_plugin(const std::string& file);

/// Its component of a kind; throws where it has none.
const cohort_component& component_of(const cohort_plugin& plugin, int32_t kind);

}  // namespace cohort::test
