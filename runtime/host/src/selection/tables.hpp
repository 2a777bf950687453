// The tables of plugins in the config file.
#pragma once

#include <string>
#include <vector>

#include <cohort/host/options.hpp>
#include <cohort/host/plugin_host.hpp>

namespace cohort::host {

/// Returns the spec with those options of the table [KIND.NAME] that it does not give itself.
Spec with_table(const Options& options, const std::string& kind, Spec spec);

/// Does the same for a collective and for the collectives that its options name, as hier's `across` does.
Spec with_tables_within(PluginHost& plugins, const Options& options, const Spec& collective);

/// Checks the tables [strategy.NAME] and [collective.NAME] of plugins that were not chosen; the tables of `chosen`
/// plugins are checked when those are made. Plugins are opened in a child process, because none of them is used here.
/// Throws UserError for a key or value that the plugin does not take, and for a name that is nearly that of a plugin.
/// Warns of a plugin that is not installed, or cannot be opened, here.
void check_other_tables(PluginHost& plugins, const Options& options, const std::vector<std::string>& chosen,
                        std::vector<std::string>& warnings);

}  // namespace cohort::host
