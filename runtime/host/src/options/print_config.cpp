#include <string>
#include <string_view>

#include <cohort/host/options.hpp>

#include "options/flag_table.hpp"

namespace cohort::host {
namespace {

std::string line(const std::string& key, const Flag& flag, const Options& options) {
  const auto value = flag.print(options);
  if (!value) return "# " + key + " is not set\n";
  return key + " = " + *value + "  # " + std::string(to_string(options.origin(flag.name))) + "\n";
}

/// [KIND] with the name, so that a table with options can be added, and [KIND.NAME] for each plugin that has some.
std::string tables_of(const std::string& kind, const Flag& flag, const Options& options) {
  std::string text = "\n[" + kind + "]\n" + line("name", flag, options);
  for (const auto& [plugin, values] : options.plugin_options) {
    if (!plugin.starts_with(kind + ".")) continue;
    text += "\n[" + kind + "." + literal(std::string_view(plugin).substr(kind.size() + 1)) + "]\n";
    for (const auto& [key, value] : values) {
      text += literal(std::string_view(key)) + " = " + literal(std::string_view(value)) + "\n";
    }
  }
  return text;
}

std::vector<OwnOption> own_options(const Options& options) {
  std::vector<OwnOption> own;
  for (const auto& [name, value] : options.own) own.push_back({name, value, ""});
  return own;
}

}  // namespace

std::string print_config(const Options& options) {
  const FlagTable table(own_options(options));
  std::string text, tables, group;
  for (const Flag& flag : table.flags()) {
    if (flag.name == "config" || flag.name == "print-config" || !flag.stands_for.empty()) continue;
    if (is_plugin_kind(flag.name)) {
      tables += tables_of(flag.name, flag, options);
      continue;
    }
    if (flag.group != group) text += (group.empty() ? "# " : "\n# ") + flag.group + "\n";
    group = flag.group;
    text += line(flag.name, flag, options);
  }
  return text + tables;
}

}  // namespace cohort::host
