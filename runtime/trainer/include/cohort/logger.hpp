// A place that what a run measures is written to: a file, a dashboard, a service.
//
// A user's own logger derives from Logger and overrides what it writes; only log_metrics has to be. The constructor
// opens that place. A run that goes on with an earlier one then calls resume_after, before anything is logged. The
// destructor closes. One thread at a time calls a logger, on rank 0 alone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <ATen/core/Tensor.h>

#include <cohort/hyper_parameters.hpp>

namespace cohort {

/// Values that were measured together. They may be NaN or infinite; none is named "step" or "epoch".
struct MetricsRow {
  uint64_t step = 0;  ///< optimizer steps done, with those of the runs that this one goes on from
  int64_t epoch = 0;  ///< from 0
  std::span<const std::pair<std::string, double>> values;
};

class Logger {
 public:
  Logger() = default;
  virtual ~Logger() = default;
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  /// Removes what an earlier run has logged for steps above `step`, and keeps the rest: the run resumes from there, and
  /// logs those steps again.
  virtual void resume_after([[maybe_unused]] uint64_t step) {}
  /// The same, but of the rows of `step` itself only the first `rows` are kept: later ones are logged again if the run
  /// resumes at the end of an epoch. A logger without this function shows them twice.
  virtual void resume_at(uint64_t step, [[maybe_unused]] uint64_t rows) { resume_after(step); }
  /// Called once, before any metrics, with what distinguishes the run from others of the same program.
  virtual void log_hyper_parameters([[maybe_unused]] const HyperParameters& parameters) {}
  virtual void log_metrics(const MetricsRow& row) = 0;
  virtual void log_text([[maybe_unused]] std::string_view name, [[maybe_unused]] std::string_view text,
                        [[maybe_unused]] uint64_t step) {}
  /// Logs how the elements of a tensor are distributed. It may lie on any device, and may be undefined, as the gradient
  /// of a parameter that was not used is.
  virtual void log_histogram([[maybe_unused]] std::string_view name, [[maybe_unused]] const at::Tensor& tensor,
                             [[maybe_unused]] uint64_t step) {}
  /// Blocks until what was logged so far is safe from a power failure. A crash of the program must lose none of it even
  /// without this call.
  virtual void flush() {}
  /// Called after the last row of a run that has reached its end; not called if it fails or is stopped.
  virtual void completed() {}
};

}  // namespace cohort
