// Metrics as a table in a file, metrics.csv: columns epoch and step, then one for each name, in the order in which the
// names first appear.
#pragma once

#include <filesystem>
#include <limits>

#include <cohort/logger.hpp>

#include "loggers/appended_file.hpp"
#include "loggers/csv_table.hpp"

namespace cohort {

/// Appends a line for each row. Only a row with a new name makes the file anew, with one more column; what was not
/// measured is an empty cell.
class CsvLogger final : public Logger {
 public:
  /// Opens the table in the folder, or begins one. Throws UserError if it cannot be written, or is no such table.
  explicit CsvLogger(const std::filesystem::path& folder);

  void resume_after(uint64_t step) override { resume_at(step, std::numeric_limits<uint64_t>::max()); }
  void resume_at(uint64_t step, uint64_t rows) override;
  void log_metrics(const MetricsRow& row) override;
  void flush() override { file_.flush(); }

 private:
  CsvTable whole_table();
  void replace(CsvTable table);

  AppendedFile file_;
  CsvTable header_;  // the columns of the file, without rows
};

}  // namespace cohort
