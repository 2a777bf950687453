#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <cohort/host/error.hpp>

#include "options/sources.hpp"

namespace cohort::host {
namespace {

const Assignment* find(const std::vector<Assignment>& given, const Flag* flag) {
  const auto found = std::ranges::find(given, flag, &Assignment::flag);
  return found == given.end() ? nullptr : &*found;
}

/// A TOML literal as one would type it behind a flag.
std::string typed(std::string literal) {
  std::erase_if(literal, [](char c) { return c == '"' || c == ' '; });
  return literal;
}

}  // namespace

std::vector<Assignment> modernised(std::vector<Assignment> given, const FlagTable& table) {
  const auto is_modern = [](const Assignment& one) { return one.flag->stands_for.empty(); };
  const auto first_older = std::stable_partition(given.begin(), given.end(), is_modern);
  const std::vector<Assignment> older(first_older, given.end());
  given.erase(first_older, given.end());
  for (const Assignment& one : older) {
    const Flag* modern = table.find(one.flag->stands_for);
    if (const Assignment* same = find(given, modern)) {
      throw UserError(one.where + " is an older spelling of --" + modern->name + ", and " + same->where +
                      " is given as well; keep the second one");
    }
    given.push_back({modern, one.values, one.where, true});
    for (const auto& [name, value] : one.flag->brings) {
      if (!find(given, table.find(name))) given.push_back({table.find(name), {value}, one.where, true});
    }
  }
  return given;
}

std::vector<std::string> modern_spellings(const Options& options, const FlagTable& table) {
  std::map<std::string, std::string> modern;
  for (const auto& [flag, where] : options.older_spellings) {
    modern[where] += " --" + flag + "=" + typed(table.find(flag)->print(options).value_or(""));
  }
  std::vector<std::string> lines;
  for (const auto& [where, flags] : modern) lines.push_back(where + " is an older spelling; write" + flags);
  return lines;
}

}  // namespace cohort::host
