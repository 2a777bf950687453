#include "report/progress_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace cohort {

std::string bar_text(int64_t done, int64_t total, int width) {
  if (total <= 0) return std::to_string(done);
  const auto filled = static_cast<size_t>(std::clamp<int64_t>(done * width / total, 0, width));
  return "[" + std::string(filled, '#') + std::string(static_cast<size_t>(width) - filled, ' ') + "] " +
         std::to_string(done) + "/" + std::to_string(total);
}

std::string clock_text(double seconds) {
  constexpr double kLongest = 1e9;
  if (!(seconds >= 0 && seconds < kLongest)) return "-:--";
  const auto whole = static_cast<long long>(std::llround(seconds));
  std::array<char, 32> text{};
  const long long hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  if (hours > 0) std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", hours, minutes, rest);
  if (hours == 0) std::snprintf(text.data(), text.size(), "%lld:%02lld", minutes, rest);
  return text.data();
}

double seconds_left(int64_t done, int64_t total, double seconds) {
  if (done <= 0 || total <= 0) return -1;
  return seconds / static_cast<double>(done) * static_cast<double>(std::max<int64_t>(total - done, 0));
}

}  // namespace cohort
