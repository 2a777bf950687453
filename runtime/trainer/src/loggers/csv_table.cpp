#include "loggers/csv_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace cohort {
namespace {

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";  // which of its bits are set depends on the machine
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (size_t end = 0; end != std::string_view::npos; line.remove_prefix(end == std::string_view::npos ? 0 : end + 1)) {
    end = line.find(',');
    cells.push_back(line.substr(0, end));
  }
  return cells;
}

}  // namespace

std::optional<CsvTable> CsvTable::parse(std::string_view text) {
  CsvTable table;
  for (size_t end = 0; !text.empty(); text.remove_prefix(end + 1)) {
    end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const auto cells = cells_of(text.substr(0, end));
    if (table.columns_.empty()) {
      table.columns_.assign(cells.begin(), cells.end());
      continue;
    }
    auto& row = table.rows_.emplace_back();
    for (const auto cell : cells) {
      double value = 0;
      const char* const last = cell.data() + cell.size();
      if (!cell.empty() && std::from_chars(cell.data(), last, value).ptr != last) return std::nullopt;
      row.push_back(cell.empty() ? std::nullopt : std::optional(value));
    }
    if (row.size() != table.columns_.size()) return std::nullopt;
  }
  return table;
}

size_t CsvTable::place_of(std::string_view column) const {
  return static_cast<size_t>(std::find(columns_.begin(), columns_.end(), column) - columns_.begin());
}

void CsvTable::drop_behind(std::string_view column, double last, uint64_t rows_of_last) {
  const size_t place = place_of(column);
  uint64_t of_last = 0;
  std::erase_if(rows_, [&](const auto& row) {
    if (place >= row.size()) return false;
    return row[place] > last || (row[place] == last && ++of_last > rows_of_last);
  });
  size_t used = 0;
  for (auto& row : rows_) {
    while (!row.empty() && !row.back()) row.pop_back();
    used = std::max(used, row.size());
  }
  columns_.resize(used);
}

bool CsvTable::has_columns_of(Cells cells) const {
  return std::all_of(cells.begin(), cells.end(),
                     [this](const auto& cell) { return place_of(cell.first) < columns_.size(); });
}

void CsvTable::add_row(Cells cells) {
  auto& row = rows_.emplace_back(columns_.size());
  for (const auto& [name, value] : cells) {
    const size_t column = place_of(name);
    if (column == columns_.size()) columns_.push_back(name);
    if (row.size() <= column) row.resize(column + 1);
    row[column] = value;
  }
}

std::string CsvTable::text() const {
  std::string text;
  for (const auto& column : columns_) text += (text.empty() ? "" : ",") + column;
  return columns_.empty() ? "" : text + "\n" + row_lines();
}

std::string CsvTable::row_lines() const {
  std::string text;
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
