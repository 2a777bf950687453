#include "strategies_command.hpp"

#include <utility>

#include <CLI/App.hpp>

#include <cohort/host/error.hpp>

#include "opened_apart.hpp"
#include "strategies_text.hpp"
#include "strategy_report.hpp"

namespace cohort::cli {
namespace {

Json report_of(const host::PluginSearch& search, const std::string& plugin) {
  try {
    return opened_apart(search, plugin, [&](host::PluginHost& plugins, host::Log& quiet) {
      return report_strategies(plugins, quiet, plugin);
    });
  } catch (const Error& error) {
    const Json broken{{"name", plugin}, {"state", "broken"}, {"spread", "-"}, {"problem", error.what()}};
    return {{"gpu", false}, {"strategies", Json::array({broken})}};
  }
}

/// Without an accelerator for GPUs nobody can use one, whatever a strategy could.
void forget_gpus(Json& entries) {
  for (Json& entry : entries) {
    if (entry.contains("uses") && entry["uses"]["gpu"] == true) entry["uses"]["gpu"] = nullptr;
  }
}

Json all_entries(const host::PluginSearch& search) {
  host::Log log({});
  const host::PluginHost plugins(search, log);
  Json entries = Json::array();
  bool has_gpus = false;
  for (const host::PluginFile& plugin : files_to_open(plugins)) {
    if (plugin.shadowed) continue;
    const Json report = report_of(search, plugin.name);
    has_gpus = has_gpus || report["gpu"] == true;
    for (const Json& entry : report["strategies"]) entries.push_back(entry);
  }
  if (!has_gpus) forget_gpus(entries);
  return entries;
}

}  // namespace

StrategiesCommand::StrategiesCommand(CLI::App& app, std::function<int()>& chosen,
                                     std::function<int(const std::string&)> show)
    : show_(std::move(show)) {
  CLI::App* strategies = app.add_subcommand("strategies", "which are installed, and what they combine with");
  places_.add_flags(*strategies);
  strategies->add_flag("--json", json_, "write JSON");
  strategies->callback([this, &chosen] { chosen = [this] { return run(); }; });
}

int StrategiesCommand::run() const {
  const Json entries = all_entries(places_.search());
  return show_(json_ ? entries.dump(2) + "\n" : strategies_text(entries));
}

}  // namespace cohort::cli
