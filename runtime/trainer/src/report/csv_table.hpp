// Rows of numbers under columns that may grow, as CSV.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

class CsvTable {
 public:
  /// Columns that do not exist yet are added at the right; earlier rows are empty there.
  void add_row(std::span<const std::pair<std::string, double>> cells);
  bool empty() const { return rows_.empty(); }
  /// A header line and a line for each row. Numbers are written so that they read back to the same value.
  std::string text() const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<std::optional<double>>> rows_;
};

}  // namespace cohort
