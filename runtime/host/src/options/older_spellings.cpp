#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

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

/// Returns the values that the modern flag has in place of these. Throws UserError for one without a translation.
std::vector<std::string> translated(const Assignment& older) {
  const auto& translations = older.flag->translations;
  if (translations.empty()) return older.values;
  std::vector<std::string> values;
  for (const std::string& value : older.values) {
    const auto found = std::ranges::find(translations, value, &std::pair<std::string, std::string>::first);
    if (found == translations.end()) {
      std::string known;
      for (const auto& [one, modern] : translations) known += (known.empty() ? "" : ", ") + one + " for " + modern;
      throw UserError(older.where + ": " + in_quotes(value) + " is no value of it; there are " + known);
    }
    values.push_back(found->second);
  }
  return values;
}

/// use-amp says whether training is in 16 bits, and amp-level how.
void drop_one_of_amp(std::vector<Assignment>& older) {
  const auto named = [&](std::string_view name) {
    return std::ranges::find_if(older, [&](const Assignment& one) { return one.flag->name == name; });
  };
  const auto use = named("use-amp"), level = named("amp-level");
  if (use == older.end() || level == older.end()) return;
  older.erase(translated(*use) == translated({use->flag, {"false"}, "", true}) ? level : use);
}

}  // namespace

std::vector<Assignment> modernised(std::vector<Assignment> given, const FlagTable& table) {
  const auto is_modern = [](const Assignment& one) { return one.flag->stands_for.empty(); };
  const auto first_older = std::stable_partition(given.begin(), given.end(), is_modern);
  std::vector<Assignment> older(first_older, given.end());
  given.erase(first_older, given.end());
  drop_one_of_amp(older);
  for (const Assignment& one : older) {
    const Flag* modern = table.find(one.flag->stands_for);
    if (const Assignment* same = find(given, modern)) {
      throw UserError(one.where + " is an older spelling of --" + modern->name + ", and " + same->where +
                      " is given as well; keep the second one");
    }
    given.push_back({modern, translated(one), one.where, true});
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
