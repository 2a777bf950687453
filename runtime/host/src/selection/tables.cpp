#include "selection/tables.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_child.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/option_table.hpp>
#include <cohort/host/strategy_layers.hpp>

namespace cohort::host {
namespace {

std::vector<cohort_option> options_of(PluginHost& plugins, Kind kind, const cohort_component& component) {
  if (kind == Kind::kStrategy) return inherited_options(plugins, component);
  return {component.options, component.options + component.num_options};
}

std::string_view value_of(const Spec& spec, const cohort_option& option) {
  const auto given =
      std::ranges::find(spec.options, option.key, [](const auto& one) { return std::string_view(one.first); });
  return given == spec.options.end() ? std::string_view(option.default_value) : given->second;
}

}  // namespace

Spec with_table(const Options& options, const std::string& kind, Spec spec) {
  const auto table = options.plugin_options.find(kind + "." + spec.name);
  if (table == options.plugin_options.end()) return spec;
  const auto given = spec.options;
  for (const auto& [key, value] : table->second) {
    const bool is_set =
        std::any_of(given.begin(), given.end(), [&key = key](const auto& one) { return one.first == key; });
    if (!is_set) spec.options.emplace_back(key, value);
  }
  return spec;
}

namespace {

Spec filled_to_the_bottom(PluginHost& plugins, const Options& options, const Spec& collective, int depth) {
  constexpr int kDeepest = 8;
  if (depth > kDeepest) {
    throw UserError("config file: the table " + in_quotes("[collective." + collective.name + "]") +
                    " puts a collective into itself without end; name another one there");
  }
  Spec filled = with_table(options, "collective", collective);
  const cohort_component& component = plugins.open(Kind::kCollective, filled.name);
  for (const cohort_option& option : options_of(plugins, Kind::kCollective, component)) {
    if (option.type != kCollectiveType) continue;
    const Spec inner = parse_spec(value_of(filled, option), filled.name + ", option " + in_quotes(option.key));
    const Spec inner_filled = filled_to_the_bottom(plugins, options, inner, depth + 1);
    if (inner_filled != inner) filled.set(option.key, to_string(inner_filled));
  }
  return filled;
}

}  // namespace

Spec with_tables_within(PluginHost& plugins, const Options& options, const Spec& collective) {
  return options.plugin_options.empty() ? collective : filled_to_the_bottom(plugins, options, collective, 1);
}

namespace {

/// A table of the config file for a plugin that was not chosen.
struct OtherTable {
  std::string where;  // for messages
  Kind kind;
  std::string plugin;
  const std::vector<std::pair<std::string, std::string>>& values;
};

/// Returns whether the table may be meant for a plugin that only other machines have: no plugin here is named nearly
/// so.
bool is_for_other_machines(const PluginHost& plugins, const std::string& name) {
  std::vector<std::string> names;
  for (const PluginFile& file : plugins.available()) names.push_back(file.name);
  return is_plugin_name(name) && nearest_name(name, names).empty();
}

constexpr char kMistake = '!', kUnknown = '?';

/// Returns what is wrong with the table, behind kMistake, why that cannot be known, behind kUnknown, or nothing.
std::string problem_of(const OtherTable& table, PluginHost& plugins) {
  try {
    const cohort_component& component = plugins.open(table.kind, table.plugin);
    check_options(options_of(plugins, table.kind, component), table.values, table.where + ": the plugin");
    return {};
  } catch (const PluginRefused& error) {  // the same file may serve machines that have what this plugin needs
    return kUnknown + std::string(error.what());
  } catch (const std::exception& error) {
    return kMistake + std::string(error.what());
  }
}

/// Does the same in a child process, so that nothing of a plugin that is not used runs in this one.
std::string problem_found_apart(const OtherTable& table, PluginHost& plugins) {
  constexpr std::chrono::seconds kDeadline{30};
  try {
    return in_child("plugin '" + table.plugin + "'", kDeadline, [&] { return problem_of(table, plugins); });
  } catch (const PluginRefused& error) {
    return kUnknown + std::string(error.what());
  }
}

}  // namespace

void check_other_tables(PluginHost& plugins, const Options& options, const std::vector<std::string>& chosen,
                        std::vector<std::string>& warnings) {
  for (const auto& [name, values] : options.plugin_options) {
    if (std::ranges::find(chosen, name) != chosen.end()) continue;
    const std::size_t point = name.find('.');
    const OtherTable table{"config file, table " + in_quotes("[" + name + "]"),
                           name.substr(0, point) == "strategy" ? Kind::kStrategy : Kind::kCollective,
                           name.substr(point + 1), values};
    if (is_for_other_machines(plugins, table.plugin)) {
      warnings.push_back(table.where + " is not checked: no plugin of that name is installed here");
      continue;
    }
    const std::string problem = problem_found_apart(table, plugins);
    if (problem.empty()) continue;
    const std::string why = problem.substr(1);
    if (problem[0] == kMistake) throw UserError(why.starts_with(table.where) ? why : table.where + ": " + why);
    warnings.push_back(table.where + " is not checked: " + why);
  }
}

}  // namespace cohort::host
