// Numbers of metrics as people read them.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace cohort {

/// Returns the value with this many significant digits.
inline std::string number_text(double value, int digits = 6) {
  std::array<char, 64> text;
  const int length = std::snprintf(text.data(), text.size(), "%.*g", digits, value);
  return {text.data(), static_cast<size_t>(length)};
}

}  // namespace cohort
