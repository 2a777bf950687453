#include "option_table/option_type.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>

#include <cohort/host/option_table.hpp>

namespace cohort::host {
namespace {

// What stands between `open` and `close` behind the word; nothing where the text has another form.
std::optional<std::string_view> argument_of(std::string_view text, std::string_view word, char open, char close) {
  if (!text.starts_with(word)) return std::nullopt;
  text.remove_prefix(word.size());
  if (text.size() < 2 || text.front() != open || text.back() != close) return std::nullopt;
  return text.substr(1, text.size() - 2);
}

template <class Number>
std::optional<Range<Number>> parse_range(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view end = text.substr(dots + 2);
  const auto low = parse_number<Number>(text.substr(0, dots));
  const auto high = end.empty() ? std::optional(std::numeric_limits<Number>::max()) : parse_number<Number>(end);
  if (!low || !high || *low > *high) return std::nullopt;
  return Range<Number>{*low, *high};
}

bool is_choice(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !text.empty() && std::ranges::all_of(text, fits);
}

std::optional<OptionType> parse_enum(std::string_view text) {
  EnumType type;
  while (true) {
    const std::size_t bar = std::min(text.find('|'), text.size());
    const std::string_view choice = text.substr(0, bar);
    if (!is_choice(choice) || std::ranges::find(type.choices, choice) != type.choices.end()) return std::nullopt;
    type.choices.emplace_back(choice);
    if (bar == text.size()) return type;
    text.remove_prefix(bar + 1);
  }
}

// Takes the text off up to the next bar that stands outside of parentheses.
std::string_view take_alternative(std::string_view& text) {
  std::size_t length = 0;
  for (int depth = 0; length < text.size() && (text[length] != '|' || depth > 0); ++length) {
    depth += text[length] == '(' ? 1 : text[length] == ')' ? -1 : 0;
  }
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return taken;
}

template <class Type, class Number>
std::optional<OptionType> with_range(std::string_view text) {
  const auto range = parse_range<Number>(text);
  if (!range) return std::nullopt;
  return Type{*range};
}

std::optional<OptionType> parse_one(std::string_view text) {
  if (text == "bool") return BoolType{};
  if (text == "int") return IntType{};
  if (text == "float") return FloatType{};
  if (text == "size") return SizeType{};
  if (text == "duration") return DurationType{};
  if (text == "string") return StringType{};
  if (text == kCollectiveType) return CollectiveType{};
  if (const auto range = argument_of(text, "int", '[', ']')) return with_range<IntType, int64_t>(*range);
  if (const auto range = argument_of(text, "float", '[', ']')) return with_range<FloatType, double>(*range);
  if (const auto choices = argument_of(text, "enum", '(', ')')) return parse_enum(*choices);
  return std::nullopt;
}

}  // namespace

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(number)) return std::nullopt;
  }
  return number;
}
template std::optional<int> parse_number(std::string_view text);
template std::optional<int64_t> parse_number(std::string_view text);
template std::optional<uint64_t> parse_number(std::string_view text);
template std::optional<double> parse_number(std::string_view text);

std::optional<bool> parse_truth(std::string_view text) {
  constexpr std::array<std::string_view, 4> kTrue{"true", "1", "yes", "on"}, kFalse{"false", "0", "no", "off"};
  if (std::ranges::find(kTrue, text) != kTrue.end()) return true;
  if (std::ranges::find(kFalse, text) != kFalse.end()) return false;
  return std::nullopt;
}

OptionTypes parse_option_type(std::string_view text) {
  OptionTypes types;
  EnumType words;  // those that are alternatives of their own
  if (text.ends_with('|')) return {};
  while (!text.empty()) {
    const std::string_view one = take_alternative(text);
    if (auto type = parse_one(one)) {
      types.push_back(std::move(*type));
    } else if (is_choice(one) && std::ranges::find(words.choices, one) == words.choices.end()) {
      words.choices.emplace_back(one);
    } else {
      return {};
    }
  }
  // Words alone are an enum, and a collective is looked for by its type before there are values.
  const bool is_alone = types.size() == 1 && words.choices.empty();
  const auto is_collective = [](const OptionType& type) { return std::holds_alternative<CollectiveType>(type); };
  if (types.empty() || (!is_alone && std::ranges::any_of(types, is_collective))) return {};
  if (!words.choices.empty()) types.push_back(std::move(words));
  return types;
}

}  // namespace cohort::host
