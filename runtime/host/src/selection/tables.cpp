#include "selection/tables.hpp"

#include <algorithm>

#include <cohort/host/error.hpp>
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

void check_other_tables(PluginHost& plugins, const Options& options, const std::vector<std::string>& chosen,
                        std::vector<std::string>& warnings) {
  for (const auto& [table, values] : options.plugin_options) {
    if (std::ranges::find(chosen, table) != chosen.end()) continue;
    const std::size_t point = table.find('.');
    const Kind kind = table.substr(0, point) == "strategy" ? Kind::kStrategy : Kind::kCollective;
    const std::string where = "config file, table " + in_quotes("[" + table + "]");
    try {
      const cohort_component& component = plugins.open(kind, table.substr(point + 1));
      check_options(options_of(plugins, kind, component), values, where + ": the plugin");
    } catch (const PluginRefused& error) {  // the same file may serve machines that have what this plugin needs
      warnings.push_back(where + " is not checked: " + error.what());
    } catch (const UserError& error) {
      const std::string why = error.what();
      throw UserError(why.starts_with(where) ? why : where + ": " + why);
    }
  }
}

}  // namespace cohort::host
