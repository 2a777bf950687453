// What ends a training and how often things happen in it: options, defaults and the special modes, resolved once.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <cohort/host/options.hpp>
#include <cohort/session.hpp>
#include <cohort/trainer.hpp>

namespace cohort {

struct LoopLimits {
  std::optional<int64_t> max_epochs;  ///< absent: no limit
  std::optional<int64_t> max_steps;
  std::optional<std::chrono::seconds> max_time;
  BatchLimit train, validation, test, predict;
  std::optional<BatchLimit> val_check_interval;
  int64_t validate_every_n_epochs = 1;
  int64_t sanity_batches = 0;  ///< of validation, before training; -1: all
  bool overfits = false;       ///< trains and validates on the same first batches, in order
  int64_t accumulate = 1;
  std::optional<GradientClip> clip;
  int64_t log_every_n_steps = 50;
  bool validate = true;
  bool report = true;  ///< log lines, bar, metrics
  bool files = true;   ///< metrics.csv, checkpoints
  std::string notice;  ///< a line for the log, or empty
};

/// A flag that is given wins over `defaults`; where neither sets an end, training takes 1000 epochs. --fast-dev-run
/// limits every loop and writes no files, --barebones leaves nothing but the steps.
LoopLimits resolve_limits(const Options& options, const TrainerDefaults& defaults);

/// Returns the optimizer step at which the limits end training, if that is known: `epoch_length` is the number of
/// batches of an epoch, unknown for a stream; `more_steps` are those that other numbers of ranks have taken more than
/// as many epochs of this length have.
std::optional<uint64_t> planned_steps(const LoopLimits& limits, std::optional<int64_t> epoch_length,
                                      int64_t more_steps = 0);

/// Batches between two validations, or nothing for "at the end of the epoch". `length`: batches of the epoch, unknown
/// for a stream. Throws UserError for an interval that no epoch reaches, or for a fraction of a stream.
std::optional<int64_t> validation_interval(const std::optional<BatchLimit>& interval, std::optional<int64_t> length);

}  // namespace cohort
