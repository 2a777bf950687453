// Rows of numbers under columns that may grow, as CSV.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort {

class CsvTable {
 public:
  using Cells = std::span<const std::pair<std::string, double>>;

  /// Columns that do not exist yet are added at the right; earlier rows are empty there.
  void add_row(Cells cells);
  /// Returns whether add_row would add no column.
  bool has_columns_of(Cells cells) const;
  bool empty() const { return rows_.empty(); }
  /// What text() wrote; nothing for any other text.
  static std::optional<CsvTable> parse(std::string_view text);
  /// Forgets the rows that have more than `last` in this column, those that have `last` but for the first
  /// `rows_of_last`, and columns at the right that only they had.
  void drop_behind(std::string_view column, double last, uint64_t rows_of_last);
  /// Keeps the columns.
  void forget_rows() { rows_.clear(); }
  /// A header line and a line for each row; "" without columns. Numbers are written so that they read back to the same
  /// value.
  std::string text() const;
  /// The same without the header line.
  std::string row_lines() const;

 private:
  size_t place_of(std::string_view column) const;

  std::vector<std::string> columns_;
  std::vector<std::vector<std::optional<double>>> rows_;
};

}  // namespace cohort
