// The places that options come from, each read into the same form.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <cohort/host/options.hpp>

#include "options/flag_table.hpp"

namespace cohort::host {

/// A flag as one source gives it.
struct Assignment {
  const Flag* flag;
  std::vector<std::string> values;
  std::string where;                ///< for messages
  bool has_older_spelling = false;  ///< `where` names an older spelling of the flag
};

/// The same with the flags that older spellings stand for. Throws UserError where such a flag is given as well.
std::vector<Assignment> modernised(std::vector<Assignment> given, const FlagTable& table);

/// One line for each older spelling: what to write instead.
std::vector<std::string> modern_spellings(const Options& options, const FlagTable& table);

/// Flags of the command line. Throws UserError for one that is unknown or given twice, HelpRequested for --help.
std::vector<Assignment> read_command_line(const OptionSources& sources, const FlagTable& table, const Options& code);

/// Returns the values of COHORT_<FLAG> variables; flags that may be repeated take several values, separated by
/// semicolons. A COHORT_ variable that is neither an option nor read elsewhere throws UserError if an option has nearly
/// the same name; else it is a warning, unless other tools use names of its form.
std::vector<Assignment> read_environment(const std::map<std::string, std::string, std::less<>>& environment,
                                         const FlagTable& table, std::vector<std::string>& warnings);

struct FromFile {
  std::vector<Assignment> assignments;
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> plugin_options;
};
/// A TOML file. Throws UserError with file and line.
FromFile read_config_file(const std::filesystem::path& file, const FlagTable& table);

}  // namespace cohort::host
