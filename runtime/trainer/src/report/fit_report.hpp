// What a training shows while it runs: a bar on a terminal, a line per epoch, and metrics.csv.
//
// On rank 0; on other ranks, and where the limits ask for silence, every call does nothing.
#pragma once

#include <filesystem>
#include <span>

#include <cohort/metrics.hpp>
#include <cohort/runtime.hpp>

#include "loop/limits.hpp"
#include "report/csv_table.hpp"
#include "report/progress_bar.hpp"

namespace cohort {

class FitReport {
 public:
  /// Throws UserError where --log-dir cannot be made.
  FitReport(Runtime& runtime, const LoopLimits& limits);

  /// A training goes on that has done this many steps: what the table holds of them stays.
  void go_on_after(uint64_t steps);
  void batch(int64_t epoch, int64_t batches, std::optional<int64_t> length) { bar_.show(epoch, batches, length); }
  /// Values of one step, at the logging interval.
  void step(int64_t epoch, uint64_t step, std::span<const std::pair<std::string, double>> values);
  /// Values measured in the middle of an epoch.
  void validation(int64_t epoch, uint64_t step, const Metrics& metrics);
  void epoch(int64_t epoch, uint64_t step, const Metrics& metrics, double seconds);

 private:
  void add_row(int64_t epoch, uint64_t step, std::span<const std::pair<std::string, double>> values);

  host::Log& log_;
  bool active_;
  ProgressBar bar_;
  std::filesystem::path csv_file_;  // empty: none is written
  CsvTable csv_;
};

}  // namespace cohort
