#include "report/results_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace cohort {
namespace {

std::string printed(const char* format, double value) {
  std::array<char, 64> text;
  const int length = std::snprintf(text.data(), text.size(), format, value);
  return {text.data(), static_cast<size_t>(length)};
}

}  // namespace

std::string epoch_line(int64_t epoch, const Metrics& metrics, double seconds) {
  std::string line = "epoch " + std::to_string(epoch) + ":";
  const char* separator = " ";
  for (const auto& [name, value] : metrics) {
    line += separator + name + " " + printed("%.4g", value);
    separator = ", ";
  }
  return line + " (" + printed("%.1f", seconds) + " s)";
}

std::string results_table(const std::string& title, const Metrics& metrics) {
  size_t width = title.size();
  for (const auto& [name, value] : metrics) width = std::max(width, name.size());
  const auto line = [width](const std::string& left, const std::string& right) {
    return left + std::string(width - left.size(), ' ') + " | " + right + "\n";
  };
  std::string table = line(title, "Value") + std::string(width + 1, '-') + "+--------\n";
  for (const auto& [name, value] : metrics) table += line(name, printed("%.6g", value));
  return table;
}

}  // namespace cohort
