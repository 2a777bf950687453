#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/option_table.hpp>

#include "options/sources.hpp"

namespace cohort::host {
namespace {

constexpr std::string_view kVariablePrefix = "COHORT_";
constexpr const char* kPluginPath = "COHORT_PLUGIN_PATH";
// Variables that are not options: the first is read by the plugin search, the next ten by ranks. The others are read
// by the scripts that build and test the product, which may start its programs.
constexpr std::array<std::string_view, 18> kOtherPurposes{
    kPluginPath,          "COHORT_JOB_SECRET_FD", "COHORT_JOB_SECRET_FILE", "COHORT_JOB_SECRET",
    "COHORT_RUN_ID",      "COHORT_STORE_FD",      "COHORT_START_TIME_NS",   "COHORT_SAID_WHY",
    "COHORT_NODE_NAME",   "COHORT_DEVICES_SHOWN", "COHORT_MAX_RESTARTS",    "COHORT_DEPS_DIR",
    "COHORT_LIBTORCH",    "COHORT_BUILD",         "COHORT_CI_SINCE",        "COHORT_TEST_SEED",
    "COHORT_SOAK_ROUNDS", "COHORT_BENCH_CLONES"};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string in_upper_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return text;
}

/// Returns whether Kubernetes sets such a variable in every container, for a service named "cohort" or "cohort-...".
bool is_of_a_service(std::string_view variable, std::string_view value) {
  const auto has = [&](std::string_view part) { return variable.find(part) != std::string_view::npos; };
  const bool is_address = value.find("://") != std::string_view::npos;
  return variable.ends_with("_SERVICE_HOST") || has("_SERVICE_PORT") || (variable.ends_with("_PORT") && is_address) ||
         (has("_PORT_") && (has("_TCP") || has("_UDP") || has("_SCTP")));
}

/// Returns whether modules, CMake and scripts name folders so.
bool names_a_folder(std::string_view variable) {
  return variable.ends_with("_ROOT") || variable.ends_with("_HOME") || variable.ends_with("_DIR");
}

/// Returns the variable that was meant, if it is near to one that is read. The common prefix makes no name nearer.
std::string nearest_variable(std::string_view variable, const FlagTable& table) {
  std::vector<std::string> names{std::string(kPluginPath).substr(kVariablePrefix.size())};
  for (const Flag& flag : table.flags()) names.push_back(variable_of(flag.name).substr(kVariablePrefix.size()));
  const std::string nearest = nearest_name(in_upper_case(std::string(variable.substr(kVariablePrefix.size()))), names);
  return nearest.empty() ? nearest : std::string(kVariablePrefix) + nearest;
}

/// Returns a warning, or nothing where others use such a name. Throws UserError for a typing error.
std::string judge_unknown(const std::string& variable, std::string_view value, const FlagTable& table) {
  if (is_of_a_service(variable, value)) return {};
  const std::string nearest = nearest_variable(variable, table);
  if (!nearest.empty()) {
    throw UserError("environment: the variable " + in_quotes(variable) + " is unknown; did you mean " + nearest + "?");
  }
  if (names_a_folder(variable)) return {};
  return "environment: nothing reads the variable " + in_quotes(variable) +
         "; --help lists the options, each of which has a COHORT_ variable";
}

}  // namespace

std::vector<Assignment> read_environment(const std::map<std::string, std::string, std::less<>>& environment,
                                         const FlagTable& table, std::vector<std::string>& warnings) {
  std::vector<Assignment> assignments;
  for (auto entry = environment.lower_bound(kVariablePrefix); entry != environment.end(); ++entry) {
    const auto& [variable, value] = *entry;
    if (!variable.starts_with(kVariablePrefix)) break;
    if (value.empty() || std::ranges::find(kOtherPurposes, variable) != kOtherPurposes.end()) continue;
    const auto flag = std::ranges::find(table.flags(), variable, [](const Flag& one) { return variable_of(one.name); });
    if (flag == table.flags().end()) {
      std::string warning = judge_unknown(variable, value, table);
      if (!warning.empty()) warnings.push_back(std::move(warning));
      continue;
    }
    assignments.push_back(
        {&*flag, flag->arity == Arity::kMany ? split(value) : std::vector<std::string>{value}, variable});
  }
  return assignments;
}

}  // namespace cohort::host
