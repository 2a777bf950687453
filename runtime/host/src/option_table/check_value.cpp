#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/option_table.hpp>
#include <cohort/host/options.hpp>
#include <cohort/host/spec.hpp>

#include "option_table/option_type.hpp"

namespace cohort::host {
namespace {

std::string number_text(auto value) {
  std::array<char, 32> digits;
  return std::string(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

// In the form that cohort/api/plugin.h promises: no plus sign, and no exponent if the number is whole and below 2^53.
std::string number_text(double value) {
  constexpr double kLeastInexact = 9007199254740992;  // 2^53
  std::array<char, 32> digits;
  const bool is_plain = std::trunc(value) == value && std::abs(value) < kLeastInexact;
  char* const end = digits.data() + digits.size();
  const auto result = is_plain ? std::to_chars(digits.data(), end, value, std::chars_format::fixed)
                               : std::to_chars(digits.data(), end, value);
  std::string text(digits.data(), result.ptr);
  std::erase(text, '+');
  return text;
}

// Gives the canonical form of one value; one overload for each type.
class Checker {
 public:
  Checker(std::string_view value, std::string_view type, std::string_view where)
      : value_(value), type_(type), where_(where) {}

  std::string operator()(const BoolType&) const {
    if (const auto value = parse_truth(value_)) return *value ? "true" : "false";
    fail("true or false");
  }

  std::string operator()(const IntType& type) const { return in_range(type.range); }
  std::string operator()(const FloatType& type) const { return in_range(type.range); }

  std::string operator()(const SizeType&) const { return number_text(parse_size(value_, where_)); }
  std::string operator()(const DurationType&) const { return number_text(parse_duration(value_, where_).count()); }

  std::string operator()(const StringType&) const {
    // It reaches the plugin as a C string, which would end there.
    if (value_.find('\0') != std::string_view::npos) fail("text without a NUL byte");
    return std::string(value_);
  }

  std::string operator()(const CollectiveType&) const { return to_string(parse_spec(value_, where_)); }

  std::string operator()(const EnumType& type) const {
    if (std::ranges::find(type.choices, value_) != type.choices.end()) return std::string(value_);
    const std::string nearest = nearest_name(value_, type.choices);
    fail(nearest.empty() ? type.choices.front() : nearest);
  }

 private:
  std::string_view value_;
  std::string_view type_;
  std::string_view where_;

  template <class Number>
  std::string in_range(const Range<Number>& range) const {
    const auto number = parse_number<Number>(value_);
    if (number && *number >= range.low && *number <= range.high) return number_text(*number);
    const bool bounded = range.low != Range<Number>{}.low;
    fail(bounded ? number_text(range.low) : "8");
  }

  [[noreturn]] void fail(const std::string& example) const {
    throw UserError(std::string(where_) + ": " + in_quotes(value_) + " does not fit the type " + std::string(type_) +
                    "; write for example " + example);
  }
};

}  // namespace

std::string check_value(std::string_view value, std::string_view type, std::string_view where) {
  const OptionTypes types = parse_option_type(type);
  // A word is tried first: what stands for itself is no wrong number.
  for (const OptionType& alternative : types) {
    const auto* const words = std::get_if<EnumType>(&alternative);
    if (words && std::ranges::find(words->choices, value) != words->choices.end()) return std::string(value);
  }
  for (std::size_t i = 0; i + 1 < types.size(); ++i) {
    try {
      return std::visit(Checker(value, type, where), types[i]);
    } catch (const UserError&) {
      if (i + 2 >= types.size() && std::holds_alternative<EnumType>(types.back())) throw;  // its example is a number
    }
  }
  if (!types.empty()) return std::visit(Checker(value, type, where), types.back());
  throw UserError(
      std::string(where) + ": " + in_quotes(type) + " is not an option type; the types are bool, int, int[1..64], " +
      "float, float[0..1], size, duration, enum(a|b), string and collective, and alternatives as in int[1..]|auto");
}

}  // namespace cohort::host
