#include <cohort/host/option_table.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "option_table/option_type.hpp"

namespace cohort::host {
namespace {

using KeyValue = std::pair<std::string, std::string>;

bool is_option_key(std::string_view key) {
  constexpr std::size_t kLongest = 64;
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto fits = [&](char c) { return is_lower(c) || (c >= '0' && c <= '9') || c == '_' || c == '.'; };
  return !key.empty() && key.size() <= kLongest && is_lower(key.front()) && std::ranges::all_of(key, fits);
}

const KeyValue* find_given(std::span<const KeyValue> given, std::string_view key) {
  const auto found =
      std::ranges::find(given, key, [](const KeyValue& option) { return std::string_view(option.first); });
  return found == given.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_unknown_key(std::span<const cohort_option> declared, std::string_view key,
                                     std::string_view component) {
  std::string message = std::string(component) + " has no option " + in_quotes(key);
  if (declared.empty()) throw UserError(message + "; it takes none");
  std::vector<std::string> known;
  for (const auto& option : declared) known.emplace_back(option.key);
  const std::string nearest = nearest_name(key, known);
  message += nearest.empty() ? "; it takes these:\n" : "; did you mean " + in_quotes(nearest) + "? It takes these:\n";
  throw UserError(message + option_table_text(declared));
}

void refuse_bad_keys(std::span<const cohort_option> declared, std::span<const KeyValue> given,
                     std::string_view component) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& key = given[i].first;
    const bool known = std::ranges::any_of(declared, [&](const auto& option) { return option.key == key; });
    if (!known) refuse_unknown_key(declared, key, component);
    if (find_given(given.first(i), key)) {
      throw UserError(std::string(component) + ": the option " + in_quotes(key) + " is given twice; keep one of them");
    }
  }
}

// "a, b and c" of "a|b|c".
std::string listed(std::string_view variants) {
  std::string text(variants);
  const std::size_t last = text.rfind('|');
  if (last != std::string::npos) text.replace(last, 1, " and ");
  for (std::size_t i = 0; (i = text.find('|', i)) != std::string::npos;) text.replace(i, 1, ", ");
  return text;
}

void refuse_other_variants(std::span<const cohort_option> declared, std::span<const KeyValue> given,
                           std::string_view component, std::string_view variant) {
  for (const cohort_option& option : declared) {
    if (!find_given(given, option.key) || has_variant(option, variant)) continue;
    throw UserError(std::string(component) + " with the variant " + in_quotes(variant) + " has no option " +
                    in_quotes(option.key) + ", which belongs to " + listed(option.variants) + "; leave it out");
  }
}

std::string option_flags_problem(const cohort_option& option) {
  constexpr uint32_t kKnown = COHORT_OPTION_REQUIRED | COHORT_OPTION_DEPRECATED | COHORT_OPTION_HIDDEN;
  const bool is_required = (option.flags & COHORT_OPTION_REQUIRED) != 0;
  if ((option.flags & ~kKnown) != 0) return "sets flags that this cohort does not know; clear them";
  if (option.reserved0 != 0) return "sets its reserved field; set it to 0";
  if (is_required && option.default_value) return "is required and has a default; set one of the two to null";
  return "";
}

}  // namespace

bool is_one_line(const char* text) {
  return text && *text && std::string_view(text).find('\n') == std::string_view::npos;
}

bool has_variant(const cohort_option& option, std::string_view variant) {
  if (!option.variants || variant.empty()) return true;
  const std::string all = "|" + std::string(option.variants) + "|";
  return all.find("|" + std::string(variant) + "|") != std::string::npos;
}

const char* default_text(const cohort_option& option) {
  return option.default_value ? option.default_value : "(required)";
}

CheckedOptions::CheckedOptions(std::vector<KeyValue> values) : values_(std::move(values)) {
  for (const auto& [key, value] : values_) pointers_.push_back({key.c_str(), value.c_str()});
}

bool is_valid_option(const cohort_option& option, std::string& problem) {
  if (!option.key || !is_option_key(option.key)) {
    problem = "an option has the key " + in_quotes(option.key ? option.key : "(null)") +
              ", but keys have the form [a-z][a-z0-9_.]{0,63}";
    return false;
  }
  const std::string where = "the option " + in_quotes(option.key);
  if (const std::string wrong = option_flags_problem(option); !wrong.empty()) {
    problem = where + " " + wrong;
    return false;
  }
  const bool is_required = (option.flags & COHORT_OPTION_REQUIRED) != 0;
  if (is_required && option.type && parse_option_type(option.type).empty()) {
    problem = where + ": " + in_quotes(option.type) + " is not an option type";
    return false;
  }
  if (!option.type || !(option.default_value || is_required) || !is_one_line(option.help)) {
    problem = where + " needs a type, a default and one line of help";
    return false;
  }
  try {
    if (!is_required) check_value(option.default_value, option.type, where);
  } catch (const UserError& error) {
    problem = error.what();
    return false;
  }
  return true;
}

CheckedOptions check_options(std::span<const cohort_option> declared, std::span<const KeyValue> given,
                             std::string_view component, std::string_view variant) {
  refuse_bad_keys(declared, given, component);
  refuse_other_variants(declared, given, component, variant);
  std::vector<KeyValue> values;
  std::vector<std::string> warnings;
  for (const auto& option : declared) {
    const KeyValue* found = find_given(given, option.key);
    const std::string where = std::string(component) + ", option " + in_quotes(option.key);
    if (!found && !option.default_value) {
      throw UserError(std::string(component) + " needs the option " + in_quotes(option.key) + " (" + option.help +
                      "); give it as " + option.key + "=VALUE");
    }
    if (found && (option.flags & COHORT_OPTION_DEPRECATED))
      warnings.push_back(where + " is deprecated: " + option.help);
    const std::string_view value = found ? std::string_view(found->second) : option.default_value;
    values.emplace_back(option.key, check_value(value, option.type, where));
  }
  CheckedOptions checked(std::move(values));
  checked.warnings = std::move(warnings);
  return checked;
}

std::string option_table_text(std::span<const cohort_option> declared) {
  using Row = std::array<std::string_view, 4>;
  std::vector<Row> rows{{"key", "type", "default", "help"}};
  for (const auto& option : declared) {
    if (option.flags & COHORT_OPTION_HIDDEN) continue;
    rows.push_back({option.key, option.type, default_text(option), option.help});
  }

  std::array<std::size_t, 4> widths{};
  for (const Row& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t column = 0; column + 1 < row.size(); ++column) {
      text.append("  ").append(row[column]).append(widths[column] - row[column].size(), ' ');
    }
    text.append("  ").append(row.back()).append("\n");
  }
  text.pop_back();
  return text;
}

}  // namespace cohort::host
