#include <cohort/host/option_table.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort::host {
namespace {

using KeyValue = std::pair<std::string, std::string>;

bool is_option_key(std::string_view key) {
  constexpr std::size_t kLongest = 64;
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto fits = [&](char c) { return is_lower(c) || (c >= '0' && c <= '9') || c == '_' || c == '.'; };
  return !key.empty() && key.size() <= kLongest && is_lower(key.front()) && std::ranges::all_of(key, fits);
}

bool is_one_line(const char* text) {
  return text && *text && std::string_view(text).find('\n') == std::string_view::npos;
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

}  // namespace

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
  if (!option.type || !option.default_value || !is_one_line(option.help)) {
    problem = where + " needs a type, a default and one line of help";
    return false;
  }
  try {
    check_value(option.default_value, option.type, where);
  } catch (const UserError& error) {
    problem = error.what();
    return false;
  }
  return true;
}

CheckedOptions check_options(std::span<const cohort_option> declared, std::span<const KeyValue> given,
                             std::string_view component) {
  refuse_bad_keys(declared, given, component);
  std::vector<KeyValue> values;
  for (const auto& option : declared) {
    const KeyValue* found = find_given(given, option.key);
    const std::string_view value = found ? std::string_view(found->second) : option.default_value;
    const std::string where = std::string(component) + ", option " + in_quotes(option.key);
    values.emplace_back(option.key, check_value(value, option.type, where));
  }
  return CheckedOptions(std::move(values));
}

std::string option_table_text(std::span<const cohort_option> declared) {
  using Row = std::array<std::string_view, 4>;
  std::vector<Row> rows{{"key", "type", "default", "help"}};
  for (const auto& option : declared) rows.push_back({option.key, option.type, option.default_value, option.help});

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
