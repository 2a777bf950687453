// Metrics as JSON lines in a file, metrics.jsonl: {"step":20,"epoch":0,"train_loss":0.25}
//
// A value that is not finite is the text "nan", "inf" or "-inf": JSON has no such numbers, null would not say
// which one it was, and Python's float() reads these words as well as numbers. A line does not say when it was written,
// so that a run that was killed and went on leaves the same file as one that was not.
#pragma once

#include <filesystem>
#include <limits>

#include <cohort/logger.hpp>

#include "loggers/appended_file.hpp"

namespace cohort {

class JsonLogger final : public Logger {
 public:
  /// Opens the file in the folder, or begins it. Throws UserError if it cannot be written.
  explicit JsonLogger(const std::filesystem::path& folder);

  /// Throws UserError if a line is no row of metrics.
  void resume_after(uint64_t step) override { resume_at(step, std::numeric_limits<uint64_t>::max()); }
  void resume_at(uint64_t step, uint64_t rows) override;
  void log_metrics(const MetricsRow& row) override;
  void flush() override { file_.flush(); }

 private:
  AppendedFile file_;
};

}  // namespace cohort
