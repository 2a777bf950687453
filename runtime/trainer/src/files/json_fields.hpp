// Numbers in JSON that others wrote. The library's own conversions cut a number that does not fit, and a fraction.
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace cohort {

/// A whole number, called `name` in messages. Throws std::out_of_range where it is none that the type can hold.
template <std::integral Number>
Number whole_number(const nlohmann::ordered_json& value, const char* name) {
  const bool has_sign = value.is_number_integer() && !value.is_number_unsigned();
  if (has_sign && std::in_range<Number>(value.get<int64_t>())) return value.get<Number>();
  const bool fits = value.is_number_unsigned() && std::in_range<Number>(value.get<uint64_t>());
  if (!fits) throw std::out_of_range(std::string("'") + name + "' is no whole number that is possible there");
  return value.get<Number>();
}

/// The same of the field with this name. Throws nlohmann::json::exception where there is none.
template <std::integral Number>
Number whole_field(const nlohmann::ordered_json& json, const char* name) {
  return whole_number<Number>(json.at(name), name);
}

}  // namespace cohort
