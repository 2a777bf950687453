// Where plugin files lie.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/plugin_host.hpp>

namespace cohort::host {

/// The NAME of .../cohort_NAME.so; empty where the file is not called so.
std::string plugin_name_of(const std::filesystem::path& file);

/// Makes paths absolute and drops folders that are listed twice. Throws UserError for a file of --plugin that does not
/// exist or is not called cohort_NAME.so.
PluginSearch checked_search(const PluginSearch& search);

/// The first file for a plugin name, which must have passed is_plugin_name. It exists; nothing else is known about it.
std::optional<std::filesystem::path> find_plugin_file(const PluginSearch& search, std::string_view name);

/// Every file that could be found, by name, then in the order of the search.
std::vector<PluginFile> list_plugin_files(const PluginSearch& search);

/// Returns why a plugin of this project has no file and how to get one: "it is not built yet; '...' builds it", as the
/// file not_built.txt of a build tree says. "" for other names, and in an installation.
std::string way_to_build(const PluginSearch& search, std::string_view name);

/// One line for each place that was looked at, with what is wrong there.
std::string search_trace(const PluginSearch& search);

}  // namespace cohort::host
