// The metrics that callbacks decide by: a name that nobody logs is found after the first step, and not after an epoch.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "loop/fit_context.hpp"
#include "loop/stopping.hpp"
#include "loop/validation.hpp"
#include "metrics/metric_board.hpp"

namespace cohort {

class AwaitedMetrics {
 public:
  explicit AwaitedMetrics(const FitContext& fit) : fit_(fit) {}

  /// Throws UserError if callbacks decide by a metric and --barebones logs nothing.
  void check_before_training() const;
  /// Remembers what a validation before the training has logged.
  void note_validated(const Metrics& means);
  /// Looks, once, whether somebody logs each metric. Throws UserError for a typing error on all ranks alike.
  /// Collective.
  void check_after_step(MetricBoard& board, Validation& validation, Stopping& stopping);
  /// Leaves the check out, because the run that is resumed has made it.
  void skip() { are_checked_ = true; }

 private:
  void check(const AwaitedMetric& metric, const std::set<std::string>& trained,
             const std::function<bool()>& would_be_validated) const;

  const FitContext& fit_;
  std::set<std::string> validated_;  // names that a validation before the training has logged
  bool are_checked_ = false;
};

}  // namespace cohort
