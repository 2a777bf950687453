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

}  // namespace

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
