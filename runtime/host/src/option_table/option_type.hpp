// The type of an option as a component writes it: "int[1..64]", "enum(a|b)".
//
// A value type; the texts in it belong to the component.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cohort::host {

template <class Number>
struct Range {
  Number low = std::numeric_limits<Number>::lowest();
  Number high = std::numeric_limits<Number>::max();
};

struct BoolType {};
struct IntType {
  Range<int64_t> range;
};
struct FloatType {
  Range<double> range;
};
struct SizeType {};
struct DurationType {};
struct StringType {};
struct CollectiveType {};
struct EnumType {
  std::vector<std::string> choices;
};

using OptionType =
    std::variant<BoolType, IntType, FloatType, SizeType, DurationType, StringType, CollectiveType, EnumType>;

/// The alternatives of an option's type: "int[1..]|auto" takes a number or the word.
using OptionTypes = std::vector<OptionType>;

/// Returns none if the text is not a well-formed type.
OptionTypes parse_option_type(std::string_view text);

/// The whole text as a number; nothing for anything else, NaN and infinity included.
template <class Number>
std::optional<Number> parse_number(std::string_view text);

/// Returns nothing unless the text is true, 1, yes, on, false, 0, no or off.
std::optional<bool> parse_truth(std::string_view text);

}  // namespace cohort::host
