// Durations as text for messages.
#pragma once

#include <chrono>
#include <string>

namespace cohort::sdk {
inline namespace v1 {

/// Returns a text such as "300 s" or "250 ms".
inline std::string in_words(std::chrono::nanoseconds duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

}  // namespace v1
}  // namespace cohort::sdk
