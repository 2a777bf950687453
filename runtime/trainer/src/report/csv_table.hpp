// Rows of numbers under columns that may grow, as CSV.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort {

class CsvTable {
 public:
  /// Columns that do not exist yet are added at the right; earlier rows are empty there.
  void add_row(std::span<const std::pair<std::string, double>> cells);
  bool empty() const { return rows_.empty(); }
  /// What text() wrote; nothing for any other text.
  static std::optional<CsvTable> parse(std::string_view text);
  /// Forgets the rows that have more than `limit` in this column.
  void drop_above(std::string_view column, double limit);
  /// A header line and a line for each row. Numbers are written so that they read back to the same value.
  std::string text() const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<std::optional<double>>> rows_;
};

}  // namespace cohort
