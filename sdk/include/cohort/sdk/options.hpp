// Options of a component: its declared table and the values for `create`.
#pragma once

#include <chrono>
#include <cstring>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>

#include <cohort/api/plugin.h>
#include <cohort/sdk/error.hpp>

namespace cohort::sdk {
inline namespace v1 {

namespace detail {

/// Returns whether this is one type, without alternatives.
constexpr bool is_single_type(std::string_view type) {
  for (std::string_view known : {"bool", "int", "float", "size", "duration", "string", "collective"}) {
    if (type == known) return true;
  }
  for (std::string_view known : {"int[", "float["}) {
    if (type.substr(0, known.size()) == known && type.back() == ']') return true;
  }
  return type.substr(0, 5) == "enum(" && type.back() == ')';
}

/// Returns whether the text has a type among its alternatives; the host looks at the words.
constexpr bool is_option_type(std::string_view type) {
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= type.size(); ++i) {
    if (i < type.size() && type[i] == '(') ++depth;
    if (i < type.size() && type[i] == ')') --depth;
    if (i < type.size() && (type[i] != '|' || depth > 0)) continue;
    if (is_single_type(type.substr(begin, i - begin))) return true;
    begin = i + 1;
  }
  return false;
}

}  // namespace detail

/// Returns one row of an option table; a row that the host would refuse does not compile. All strings are literals.
/// `variants`: those with the option, "qadam|async"; null: all. `flags`: COHORT_OPTION_...
constexpr cohort_option option(const char* key, const char* type, const char* default_value, const char* help,
                               const char* variants = nullptr, uint32_t flags = 0) {
  if (std::string_view(key).empty()) throw "an option needs a key";
  if (!detail::is_option_type(type)) throw "an option's type is one of those in cohort/api/plugin.h";
  if (std::string_view(help).empty()) throw "an option needs a line of help";
  if (((flags & COHORT_OPTION_REQUIRED) != 0) != (default_value == nullptr)) throw "a required option has no default";
  return {key, type, default_value, help, variants, flags, 0};
}

/// The option values for `create`, borrowed. Every declared option is present, and the host has checked its type.
class Options {
 public:
  Options(std::string_view variant, const cohort_key_value* values, uint64_t count)
      : variant_(variant), values_(values), count_(count) {}

  /// Returns the variant of a strategy; "" if it has none.
  std::string_view variant() const { return variant_; }

  std::string_view text(const char* key) const {
    for (uint64_t i = 0; i < count_; ++i) {
      if (std::strcmp(values_[i].key, key) == 0) return values_[i].value;
    }
    throw Error(COHORT_INTERNAL, std::string("option '") + key + "' is read but not declared in the option table");
  }
  bool flag(const char* key) const { return text(key) == "true"; }
  int64_t integer(const char* key) const {
    return number<int64_t>(key,
                           [](const std::string& value, std::size_t* end) { return int64_t{std::stoll(value, end)}; });
  }
  uint64_t bytes(const char* key) const {
    return number<uint64_t>(
        key, [](const std::string& value, std::size_t* end) { return uint64_t{std::stoull(value, end)}; });
  }
  double real(const char* key) const {
    return number<double>(key, [](const std::string& value, std::size_t* end) {
      std::istringstream text(value);
      text.imbue(std::locale::classic());  // The program may have set another one.
      double result = 0;
      text >> result;
      *end = text.eof() && !text.fail() ? value.size() : 0;
      return result;
    });
  }
  std::chrono::nanoseconds duration(const char* key) const { return std::chrono::nanoseconds(integer(key)); }

 private:
  template <class Number>
  Number number(const char* key, Number (*parse)(const std::string&, std::size_t*)) const {
    const std::string value(text(key));
    std::size_t end = 0;
    try {
      const Number result = parse(value, &end);
      if (end == value.size()) return result;
    } catch (const std::exception&) {
      // The last throw names the key.
    }
    throw invalid_argument(std::string("option '") + key + "' is '" + value + "', which is not a number in range");
  }

  std::string_view variant_;
  const cohort_key_value* values_;
  uint64_t count_;
};

}  // namespace v1
}  // namespace cohort::sdk
