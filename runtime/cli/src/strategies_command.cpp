#include "strategies_command.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <CLI/App.hpp>

#include <cohort/host/combinations.hpp>
#include <cohort/host/error.hpp>

#include "opened_apart.hpp"
#include "strategies_text.hpp"
#include "strategy_plans.hpp"

namespace cohort::cli {
namespace {

/// What look_at_plugin says of each plugin by name; {"problem"} of one that cannot be used.
using Looks = std::map<std::string, Json>;

Looks look_at_all(const host::PluginSearch& search) {
  host::Log log({});
  const host::PluginHost plugins(search, log);
  Looks looks;
  for (const host::PluginFile& plugin : files_to_open(plugins)) {
    if (plugin.shadowed) continue;
    const auto look = [&](host::PluginHost& opened, host::Log& quiet) {
      return look_at_plugin(opened, quiet, plugin.name);
    };
    try {
      looks[plugin.name] = opened_apart(search, plugin.name, look);
    } catch (const Error& error) {
      looks[plugin.name] = {{"problem", error.what()}};
    }
  }
  return looks;
}

bool serves_gpus(const Looks& looks) {
  return std::ranges::any_of(looks, [](const auto& entry) { return entry.second.value("gpu", false); });
}

/// True, a refusal, or null where nobody can say: the strategy is not installed, or there is no such device.
Json table_cell(const host::Combination& row, host::Use use, bool has_gpus) {
  const auto refusal = host::refusal_of(row.strategy, use);
  if (!refusal.empty()) return refusal;
  return use == host::Use::kGpu && !has_gpus ? Json() : Json(true);
}

Json known_entry(const host::Combination& row, const Looks& looks, bool has_gpus) {
  Json entry{{"name", row.strategy}, {"state", "not installed"}, {"spread", row.spread}, {"advice", row.advice}};
  const auto look = looks.find(std::string(row.strategy));
  if (look != looks.end() && look->second.contains("problem")) {
    entry["state"] = "broken";
    entry["problem"] = look->second["problem"];
  } else if (look != looks.end() && !look->second["strategy"].is_null()) {
    entry["state"] = "installed";
    entry["planned"] = look->second["strategy"];
  }
  for (const host::UseText& use : host::uses()) {
    entry["uses"][std::string(use.name)] = entry["state"] == "installed" ? table_cell(row, use.use, has_gpus) : Json();
  }
  return entry;
}

Json other_entry(const std::string& name, const Json& strategy, bool has_gpus) {
  Json entry{{"name", name}, {"state", "installed"}, {"spread", strategy["spread"]}, {"advice", ""}};
  for (const host::UseText& use : host::uses()) {
    const bool is_unknown = use.use == host::Use::kGpu && !has_gpus;
    entry["uses"][std::string(use.name)] = is_unknown ? Json() : strategy["uses"].value(std::string(use.name), Json());
  }
  return entry;
}

Json all_entries(const Looks& looks) {
  const bool has_gpus = serves_gpus(looks);
  Json entries = Json::array();
  for (const host::Combination& row : host::combinations()) entries.push_back(known_entry(row, looks, has_gpus));
  for (const auto& [name, look] : looks) {
    const bool is_known = std::ranges::count(host::combinations(), name, &host::Combination::strategy) > 0;
    if (is_known || look.contains("problem") || look["strategy"].is_null() || look["strategy"]["free"]) continue;
    entries.push_back(other_entry(name, look["strategy"], has_gpus));
  }
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
  const Json entries = all_entries(look_at_all(places_.search()));
  return show_(json_ ? entries.dump(2) + "\n" : strategies_text(entries));
}

}  // namespace cohort::cli
