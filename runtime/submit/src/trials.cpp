#include "trials.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "shell_text.hpp"

namespace cohort {
namespace {

constexpr std::size_t kMostTrials = 10'000;

void check(const GridFlag& flag) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  if (flag.name.empty() || flag.name.front() == '-' || !std::ranges::all_of(flag.name, fits)) {
    throw UserError("submit: a grid cannot be over the flag " + host::in_quotes(flag.name) +
                    "; write --grid=lr=0.1,0.01 for the program's --lr");
  }
  const std::set<std::string> different(flag.values.begin(), flag.values.end());
  if (flag.values.empty() || different.contains("") || different.size() < flag.values.size()) {
    throw UserError("submit: the grid's values for --" + flag.name +
                    " are not all there and different; write them like --grid=" + flag.name + "=0.1,0.01");
  }
}

}  // namespace

std::string flag_key(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

std::vector<std::string> trials_of(const std::vector<GridFlag>& grid) {
  std::vector<std::string> trials;
  std::set<std::string> names;
  for (const GridFlag& flag : grid) {
    check(flag);
    if (!names.insert(flag_key(flag.name)).second) {
      throw UserError("submit: the grid has --" + flag.name + " twice; give all its values at once");
    }
    if (std::max<std::size_t>(trials.size(), 1) * flag.values.size() > kMostTrials) {
      throw UserError("submit: the grid has more than " + std::to_string(kMostTrials) +
                      " trials; leave out values, or hand in several jobs");
    }
    if (trials.empty()) trials.emplace_back();
    std::vector<std::string> longer;
    for (const std::string& trial : trials) {
      for (const std::string& value : flag.values) {
        longer.push_back(trial + (trial.empty() ? "" : " ") + shell_word("--" + flag.name + "=" + value, "the value"));
      }
    }
    trials = std::move(longer);
  }
  return trials;
}

}  // namespace cohort
