// Plugins that nobody names and that are installed all the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <cohort/host/plugin_host.hpp>

namespace cohort::host {

enum class Scope {
  kAll,
  kAdded,  ///< without the folder that the runtime's own plugins are in: trying these would make every start slower
};

/// Returns the first installed plugin outside of `known` that serves, or "". Calls `serves` in a child process, because
/// it opens plugins of which all but one are not used.
std::string first_installed(PluginHost& plugins, Scope scope, const std::vector<std::string>& known,
                            const std::function<bool(const std::string& name)>& serves);

}  // namespace cohort::host
