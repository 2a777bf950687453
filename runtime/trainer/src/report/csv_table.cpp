#include "report/csv_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace cohort {
namespace {

std::string shortest(double value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

}  // namespace

void CsvTable::add_row(std::span<const std::pair<std::string, double>> cells) {
  auto& row = rows_.emplace_back(columns_.size());
  for (const auto& [name, value] : cells) {
    const auto column = static_cast<size_t>(std::find(columns_.begin(), columns_.end(), name) - columns_.begin());
    if (column == columns_.size()) columns_.push_back(name);
    if (row.size() <= column) row.resize(column + 1);
    row[column] = value;
  }
}

std::string CsvTable::text() const {
  std::string text;
  for (const auto& column : columns_) text += (text.empty() ? "" : ",") + column;
  text += "\n";
  for (const auto& row : rows_) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) text += ",";
      if (i < row.size() && row[i]) text += shortest(*row[i]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace cohort
