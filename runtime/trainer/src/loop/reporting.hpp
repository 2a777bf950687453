// The values that a training logs, and the times of its steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "loop/fit_context.hpp"
#include "metrics/metric_board.hpp"
#include "metrics/rank_report.hpp"

namespace cohort {

class Reporting {
 public:
  using Clock = std::chrono::steady_clock;

  Reporting(const FitContext& fit, const FitHooks& hooks) : fit_(fit), hooks_(hooks) {}
  ~Reporting() { board_.metrics().reset(); }
  Reporting(const Reporting&) = delete;
  Reporting& operator=(const Reporting&) = delete;

  /// Returns what the module has logged in this epoch.
  MetricBoard& board() { return board_; }
  /// Returns the board that the module logs to, or null if nothing is reported.
  MetricBoard* board_or_none() { return fit_.limits.report ? &board_ : nullptr; }
  /// See Fit::bar_values.
  Metrics bar_values() const;
  /// Puts values in the summary of the run, and those that `board` has with kBar on the bar.
  void publish(const Metrics& values, const MetricBoard& board);
  void publish(const Metrics& values) { publish(values, board_); }
  /// Shows all of these on the bar.
  void show_on_bar(const Metrics& values);

  /// Writes the states and values of metric objects. The records of the epoch wait for the device: see save_records.
  void save(const StateWriter& state);
  /// Continues with the values of a checkpoint; the run before has logged its step.
  void resume(const StateReader& state);
  /// Starts the time of the coming step.
  void start_clock() { step_begun_ = Clock::now(); }
  /// Counts a step and its time. Leaves `not_counted` out of the time from the start of the program to the first step.
  void count_step(Clock::duration not_counted);
  /// Notes the loss of a step of this number. Returns why to stop if it is not finite. Waits for the device at the
  /// logging interval only.
  std::optional<StopReason> note_loss(const at::Tensor& loss, uint64_t step);
  /// Logs the values of the step, if it is one of the logging interval.
  void log_step();
  /// Logs the values of the last step before an end, unless they were logged.
  void log_last_step();

 private:
  bool is_logging_step(uint64_t step) const;
  void log_values();

  const FitContext& fit_;
  const FitHooks& hooks_;
  MetricBoard board_;
  Metrics on_bar_;              // the latest of each name that is logged with kBar
  std::optional<double> loss_;  // of the last logging interval
  uint64_t logged_steps_ = 0;   // the last step whose values were logged
  Clock::time_point step_begun_;
};

}  // namespace cohort
