#include "report/results_text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "metrics/number_text.hpp"

namespace cohort {
namespace {

std::string seconds_text(double seconds) {
  std::array<char, 64> text;
  const int length = std::snprintf(text.data(), text.size(), "%.1f", seconds);
  return {text.data(), static_cast<size_t>(length)};
}

}  // namespace

std::string metrics_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += (text.empty() ? "" : ", ") + name + " " + number_text(value, 4);
  return text;
}

std::string epoch_line(int64_t epoch, const Metrics& metrics, double seconds) {
  const std::string text = metrics_text(metrics);
  return "epoch " + std::to_string(epoch) + ": " + text + (text.empty() ? "(" : " (") + seconds_text(seconds) + " s)";
}

std::string results_table(const std::string& title, const Metrics& metrics) {
  size_t width = title.size();
  for (const auto& [name, value] : metrics) width = std::max(width, name.size());
  const auto line = [width](const std::string& left, const std::string& right) {
    return left + std::string(width - left.size(), ' ') + " | " + right + "\n";
  };
  std::string table = line(title, "Value") + std::string(width + 1, '-') + "+--------\n";
  for (const auto& [name, value] : metrics) table += line(name, number_text(value));
  return table;
}

}  // namespace cohort
