#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/option_table.hpp>

#include "options/sources.hpp"

namespace cohort::host {
namespace {

constexpr std::string_view kPrefix = "COHORT_";
constexpr const char* kPluginPath = "COHORT_PLUGIN_PATH";
// Variables that are not options: the first is read by the plugin search, the next five by ranks. The others are read
// by the scripts that build and test the product, which may start its programs.
constexpr std::array<std::string_view, 13> kOtherPurposes{
    kPluginPath,        "COHORT_RUN_ID",      "COHORT_STORE_FD",    "COHORT_START_TIME_NS", "COHORT_SAID_WHY",
    "COHORT_NODE_NAME", "COHORT_DEPS_DIR",    "COHORT_LIBTORCH",    "COHORT_BUILD",         "COHORT_CI_SINCE",
    "COHORT_TEST_SEED", "COHORT_SOAK_ROUNDS", "COHORT_BENCH_CLONES"};

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

[[noreturn]] void refuse_unknown(const std::string& variable, const FlagTable& table) {
  std::vector<std::string> names{kPluginPath};
  for (const Flag& flag : table.flags()) names.push_back(variable_of(flag.name));
  const std::string nearest = nearest_name(in_upper_case(variable), names);
  throw UserError("environment: the variable " + in_quotes(variable) + " is unknown; " +
                  (nearest.empty() ? "unset it, or give the COHORT_ variable of an option that --help lists"
                                   : "did you mean " + nearest + "?"));
}

}  // namespace

std::vector<Assignment> read_environment(const std::map<std::string, std::string, std::less<>>& environment,
                                         const FlagTable& table) {
  std::vector<Assignment> assignments;
  for (auto entry = environment.lower_bound(kPrefix); entry != environment.end(); ++entry) {
    const auto& [variable, value] = *entry;
    if (!variable.starts_with(kPrefix)) break;
    if (value.empty() || std::ranges::find(kOtherPurposes, variable) != kOtherPurposes.end()) continue;
    const auto flag = std::ranges::find(table.flags(), variable, [](const Flag& one) { return variable_of(one.name); });
    if (flag == table.flags().end()) refuse_unknown(variable, table);
    assignments.push_back(
        {&*flag, flag->arity == Arity::kMany ? split(value) : std::vector<std::string>{value}, variable});
  }
  return assignments;
}

}  // namespace cohort::host
