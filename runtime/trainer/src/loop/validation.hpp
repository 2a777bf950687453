// The validation of a training: when it is due, and its means.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include <cohort/data.hpp>

#include "loop/fit_context.hpp"
#include "loop/stopping.hpp"
#include "metrics/metric_board.hpp"
#include "metrics/rank_report.hpp"

namespace cohort {

struct EvaluationPass;

class Validation {
 public:
  Validation(const FitContext& fit, const FitHooks& hooks, std::vector<Loader> loaders);

  /// Returns whether there is anything to validate.
  bool is_on() const { return is_on_; }
  /// Returns whether there is data, which --limit-val-batches=0 leaves out.
  bool is_left_out_by_flag() const;
  /// Throws UserError for data that cannot be used, which is better found now than after an epoch.
  void check_data() const;
  /// Plans the validations of an epoch of this length. Throws UserError for an interval that no epoch reaches.
  void begin_epoch(int64_t epoch, std::optional<int64_t> length);
  bool is_due_at_end_of(int64_t epoch) const { return is_validated(epoch) && !fit_.limits.val_check_interval; }
  /// Returns whether the interval has ended between these two numbers of batches.
  bool is_due_between(int64_t before, int64_t now) const;

  /// Evaluates the module. Takes the states of metric objects from `board` meanwhile, and gives them back. Callbacks
  /// that have changed weights for the validation change them back, also if it fails. Collective.
  MergedReport evaluate(MetricBoard& board, const Stopping& stopping);
  /// Evaluates up to `limit` batches of each loader before training, or while the board's metric objects are taken.
  /// Changes no random number, and calls no callback except for the vote on whether to stop. Collective.
  MergedReport attempt(const BatchLimit& limit, const Stopping& stopping);
  /// Returns how long attempts have lasted.
  std::chrono::steady_clock::duration attempted_for() const { return attempted_for_; }

  /// Returns the means of the epoch's last validation.
  const Metrics& means() const { return means_; }
  void set_means(Metrics means) { means_ = std::move(means); }

 private:
  bool is_validated(int64_t epoch) const;
  EvaluationPass pass(const BatchLimit& limit, const Stopping& stopping) const;
  void abandon() const;
  void leave_out();

  const FitContext& fit_;
  const FitHooks& hooks_;
  const std::vector<Loader> loaders_;
  bool is_on_;
  std::optional<int64_t> interval_;  // in batches of this epoch
  Metrics means_;
  std::chrono::steady_clock::duration attempted_for_{0};
};

}  // namespace cohort
