#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <cohort/host/in_quotes.hpp>

#include "options/sources.hpp"

namespace cohort::host {
namespace {

constexpr std::string_view kPrefix = "COHORT_";
// Read elsewhere: by the launcher's ranks, the plugin search and the build.
constexpr std::array<std::string_view, 7> kOtherPurposes{
    "COHORT_RUN_ID",   "COHORT_PLUGIN_PATH", "COHORT_STORE_FD", "COHORT_START_TIME_NS",
    "COHORT_SAID_WHY", "COHORT_NODE_NAME",   "COHORT_DEPS_DIR"};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace

FromEnvironment read_environment(const std::map<std::string, std::string, std::less<>>& environment,
                                 const FlagTable& table) {
  FromEnvironment result;
  for (auto entry = environment.lower_bound(kPrefix); entry != environment.end(); ++entry) {
    const auto& [variable, value] = *entry;
    if (!variable.starts_with(kPrefix)) break;
    const bool other = std::find(kOtherPurposes.begin(), kOtherPurposes.end(), variable) != kOtherPurposes.end();
    if (other || value.empty()) continue;
    std::string name = variable.substr(kPrefix.size());
    const bool is_upper = std::none_of(name.begin(), name.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    const Flag* flag = is_upper ? table.find(name) : nullptr;
    if (flag == nullptr) {
      result.warnings.push_back("environment: " + in_quotes(variable) + " is no option" + table.suggestion(name));
      continue;
    }
    result.assignments.push_back(
        {flag, flag->arity == Arity::kMany ? split(value) : std::vector<std::string>{value}, variable});
  }
  return result;
}

}  // namespace cohort::host
