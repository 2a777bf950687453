#include <string>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/options.hpp>

#include "options/flag_table.hpp"
#include "options/sources.hpp"

namespace cohort {

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::kCode:
      return "code";
    case Origin::kConfig:
      return "config file";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kFlag:
      return "flag";
    case Origin::kDefault:
      break;
  }
  return "default";
}

Origin Options::origin(std::string_view flag) const {
  const auto found = origins.find(flag);
  return found == origins.end() ? Origin::kDefault : found->second;
}

namespace host {
namespace {

/// Throws UserError for what Python calls nothing; options of the program's own may mean something by it.
void check_not_none(const Assignment& assignment, const std::string& value) {
  if (value != "None" || assignment.flag->group == kOwnGroup) return;
  throw UserError(assignment.where + ": 'None' is no value here; leave the option out for its default");
}

void apply(Options& options, const std::vector<Assignment>& assignments, Origin origin) {
  for (const Assignment& assignment : assignments) {
    if (assignment.flag->clear) assignment.flag->clear(options);
    for (const std::string& value : assignment.values) {
      check_not_none(assignment, value);
      assignment.flag->set(options, {value, assignment.where});
    }
    options.origins[assignment.flag->name] = origin;
    options.older_spellings.erase(assignment.flag->name);
    if (assignment.has_older_spelling) options.older_spellings[assignment.flag->name] = assignment.where;
  }
}

/// The program's defaults, with those values marked that it changed.
Options start_from(const Options& code, const FlagTable& table, const std::vector<OwnOption>& own) {
  Options options = code;
  for (const OwnOption& option : own) options.own.try_emplace(option.name, option.default_value);
  const Options untouched;
  for (const Flag& flag : table.flags()) {
    if (flag.print(code) != flag.print(untouched)) options.origins[flag.name] = Origin::kCode;
  }
  return options;
}

}  // namespace

Options parse_options(const OptionSources& sources, const Options& code) {
  const FlagTable table(sources.own);
  Options options = start_from(code, table, sources.own);
  const auto flags = modernised(read_command_line(sources, table, options), table);
  std::vector<std::string> warnings;
  const auto variables = modernised(read_environment(sources.environment, table, warnings), table);

  // Where the file is follows from the others; its values give way to theirs.
  Options naming = options;
  apply(naming, variables, Origin::kEnvironment);
  apply(naming, flags, Origin::kFlag);
  if (!naming.config.empty()) {
    FromFile file = read_config_file(naming.config, table);
    apply(options, modernised(std::move(file.assignments), table), Origin::kConfig);
    for (auto& [plugin, values] : file.plugin_options) options.plugin_options[plugin] = std::move(values);
  }
  apply(options, variables, Origin::kEnvironment);
  apply(options, flags, Origin::kFlag);
  options.warnings = modern_spellings(options, table);
  options.warnings.insert(options.warnings.end(), warnings.begin(), warnings.end());
  return options;
}

}  // namespace host
}  // namespace cohort
