#include "options/flag_table.hpp"

#include <algorithm>
#include <stdexcept>

#include <cohort/host/option_table.hpp>

namespace cohort::host {
namespace {

Flag own_flag(const OwnOption& option) {
  Flag flag;
  flag.name = canonical_flag(option.name);
  flag.group = kOwnGroup;
  flag.value = "VALUE";
  flag.help = option.help;
  // The program asks by the name that it declared.
  flag.set = [name = option.name](Options& o, Given given) { o.own[name] = std::string(given.text); };
  flag.print = [name = option.name](const Options& o) -> std::optional<std::string> {
    const auto found = o.own.find(name);
    if (found == o.own.end()) return std::nullopt;
    return literal(std::string_view(found->second));
  };
  return flag;
}

/// Returns the line by which ranks compare a flag.
std::string line_of(const Flag& flag, const Options& options) {
  const auto printed = flag.print(options);
  const bool is_given = printed && !printed->empty();
  if (!is_given) return flag.name + " = none\n";
  return flag.name + " = " + (flag.across == Across::kGiven ? "given" : *printed) + "\n";
}

char upper(char c) {
  if (c == '-') return '_';
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

}  // namespace

std::vector<Flag> common_flags() {
  std::vector<Flag> flags = training_flags();
  for (Flag& one : file_flags()) flags.push_back(std::move(one));
  return flags;
}

std::string text_across_ranks(const Options& options) {
  std::string text;
  for (const Flag& flag : common_flags()) {
    if (flag.across == Across::kSame || flag.across == Across::kGiven) text += line_of(flag, options);
  }
  return text;
}

FlagTable::FlagTable(const std::vector<OwnOption>& own) {
  for (const OwnOption& option : own) flags_.push_back(own_flag(option));
  for (Flag& flag : common_flags()) flags_.push_back(std::move(flag));
  for (const OwnOption& option : own) {
    const std::string name = canonical_flag(option.name);
    const auto same = [&name](const Flag& flag) { return flag.name == name; };
    if (std::count_if(flags_.begin(), flags_.end(), same) > 1) {
      throw std::logic_error("the program declares the option '" + name + "', which is already there");
    }
  }
}

const Flag* FlagTable::find(std::string_view name) const {
  const std::string canonical = canonical_flag(name);
  const auto found =
      std::find_if(flags_.begin(), flags_.end(), [&canonical](const Flag& flag) { return flag.name == canonical; });
  return found == flags_.end() ? nullptr : &*found;
}

std::string FlagTable::suggestion(std::string_view name) const {
  const std::string answer = answer_to_foreign_flag(canonical_flag(name));
  if (!answer.empty()) return "; " + answer;
  std::vector<std::string> names;
  for (const Flag& flag : flags_) names.push_back(flag.name);
  const std::string nearest = nearest_name(canonical_flag(name), names);
  return nearest.empty() ? "; --help lists the known ones" : "; did you mean '" + nearest + "'?";
}

std::string canonical_flag(std::string_view name) {
  std::string canonical(name);
  std::replace(canonical.begin(), canonical.end(), '_', '-');
  return canonical;
}

std::string variable_of(std::string_view flag) {
  std::string variable = "COHORT_" + std::string(flag);
  std::transform(variable.begin(), variable.end(), variable.begin(), upper);
  return variable;
}

}  // namespace cohort::host
