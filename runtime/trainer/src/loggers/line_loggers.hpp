// Metrics as lines of a file: a table, metrics.csv, or JSON, metrics.jsonl.
#pragma once

#include <filesystem>
#include <limits>
#include <utility>

#include <cohort/logger.hpp>

#include "loggers/appended_file.hpp"
#include "loggers/csv_table.hpp"

namespace cohort {

/// Every call throws UserError if the file cannot be written, or holds something else.
class LineLogger : public Logger {
 public:
  explicit LineLogger(std::filesystem::path file) : file_(std::move(file)) {}

  void resume_after(uint64_t step) override { resume_at(step, std::numeric_limits<uint64_t>::max()); }
  void flush() override { file_.flush(); }

 protected:
  AppendedFile file_;
};

/// A table with columns epoch and step, then one for each name, in the order in which the names first appear. Only a
/// row with a new name makes the file anew, with one more column; a value that was not measured is an empty cell.
class CsvLogger final : public LineLogger {
 public:
  /// Opens the table in the folder, or begins one.
  explicit CsvLogger(const std::filesystem::path& folder);

  void resume_at(uint64_t step, uint64_t rows) override;
  void log_metrics(const MetricsRow& row) override;

 private:
  CsvTable whole_table();
  void replace(CsvTable table);

  CsvTable header_;  // the columns of the file, without rows
};

/// Lines {"step":20,"epoch":0,"train_loss":0.25}
///
/// A value that is not finite is the text "nan", "inf" or "-inf": JSON has no such numbers, null would not say
/// which one it was, and Python's float() reads these words as well as numbers. A line has no time, so that a run that
/// was killed and resumed leaves the same file as one that was not.
class JsonLogger final : public LineLogger {
 public:
  /// Opens the file in the folder, or begins it.
  explicit JsonLogger(const std::filesystem::path& folder);

  void resume_at(uint64_t step, uint64_t rows) override;
  void log_metrics(const MetricsRow& row) override;
};

}  // namespace cohort
