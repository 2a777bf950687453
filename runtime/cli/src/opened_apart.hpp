// A look at a plugin from a child process, so that a broken one only costs a message.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <cohort/host/plugin_host.hpp>

namespace cohort::cli {

using Json = nlohmann::ordered_json;

/// Returns every plugin file that can be found. Throws UserError if there are more than can be opened in reasonable
/// time.
std::vector<host::PluginFile> files_to_open(const host::PluginHost& plugins);

/// What `look` returns, run in a child process with a plugin host of its own. Throws what `look` threw there, as an
/// Error with the same code and message, and PluginRefused, naming the plugin, where the child crashes or hangs.
Json opened_apart(const host::PluginSearch& search, const std::string& plugin,
                  const std::function<Json(host::PluginHost&, host::Log&)>& look);

}  // namespace cohort::cli
