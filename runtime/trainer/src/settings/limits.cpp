#include "settings/limits.hpp"

#include <algorithm>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

constexpr int64_t kEpochsUnlessLimited = 1000;

BatchLimit at_most(BatchLimit limit, int64_t batches) {
  if (limit.count) return {.count = std::min(*limit.count, batches), .fraction = {}};
  return {.count = batches, .fraction = {}};
}

void apply_fast_dev_run(LoopLimits& limits, int64_t batches) {
  limits.max_epochs = 1;
  limits.max_steps = batches;
  limits.train = at_most(limits.train, batches);
  limits.validation = at_most(limits.validation, batches);
  limits.test = at_most(limits.test, batches);
  limits.predict = at_most(limits.predict, batches);
  limits.val_check_interval.reset();
  limits.validate_every_n_epochs = 1;
  limits.sanity_batches = 0;
  limits.log_every_n_steps = 1;
  limits.files = false;
  limits.notice = "Fast development run: " + std::to_string(batches) + " batch(es) of each loop, no files";
}

}  // namespace

LoopLimits resolve_limits(const Options& options, const TrainerDefaults& defaults) {
  LoopLimits limits;
  limits.max_epochs = options.max_epochs ? options.max_epochs : defaults.max_epochs;
  limits.max_steps = options.max_steps ? options.max_steps : defaults.max_steps;
  limits.max_time = options.max_time ? options.max_time : defaults.max_time;
  limits.train = options.limit_train_batches;
  limits.validation = options.limit_val_batches;
  limits.test = options.limit_test_batches;
  limits.predict = options.limit_predict_batches;
  if (options.overfit_batches) {
    limits.overfits = true;
    limits.train = limits.validation = *options.overfit_batches;
  }
  limits.val_check_interval = options.val_check_interval;
  limits.validate_every_n_epochs = std::max<int64_t>(options.check_val_every_n_epoch, 1);
  limits.sanity_batches = options.barebones ? 0 : options.num_sanity_val_steps;
  limits.accumulate = std::max<int64_t>(options.accumulate_grad_batches, 1);
  if (options.gradient_clip_val.value_or(0) > 0) {
    const auto by = options.gradient_clip_by_value ? GradientClip::By::kValue : GradientClip::By::kNorm;
    limits.clip = GradientClip{by, *options.gradient_clip_val};
  }
  limits.log_every_n_steps = std::max<int64_t>(options.log_every_n_steps, 1);
  if (options.fast_dev_run > 0) apply_fast_dev_run(limits, options.fast_dev_run);
  if (!limits.max_epochs && !limits.max_steps && !limits.max_time) {
    limits.max_epochs = kEpochsUnlessLimited;
    limits.notice = "Neither --max-epochs, --max-steps nor --max-time is set: training for 1000 epochs";
  }
  if (limits.max_epochs && *limits.max_epochs < 0) limits.max_epochs.reset();  // -1: no limit
  if (limits.max_steps && *limits.max_steps < 0) limits.max_steps.reset();
  if (options.barebones) limits.validate = limits.report = limits.files = false;
  return limits;
}

std::optional<uint64_t> planned_steps(const LoopLimits& limits, std::optional<int64_t> epoch_length,
                                      int64_t more_steps) {
  std::optional<uint64_t> planned;
  if (limits.max_steps) planned = static_cast<uint64_t>(*limits.max_steps);
  if (!limits.max_epochs || !epoch_length) return planned;
  const int64_t steps_per_epoch = (*epoch_length + limits.accumulate - 1) / limits.accumulate;
  const auto by_epochs = static_cast<uint64_t>(std::max<int64_t>(*limits.max_epochs * steps_per_epoch + more_steps, 0));
  return planned ? std::min(*planned, by_epochs) : by_epochs;
}

std::optional<int64_t> validation_interval(const std::optional<BatchLimit>& interval, std::optional<int64_t> length) {
  if (!interval) return std::nullopt;
  if (interval->fraction && !length) {
    throw UserError(
        "--val-check-interval is a fraction, but the training data is a stream of unknown length; give a number of "
        "batches");
  }
  if (interval->fraction) return std::max<int64_t>(interval->of(*length), 1);
  const int64_t batches = interval->count.value_or(1);
  if (batches < 1) throw UserError("--val-check-interval must be at least one batch");
  if (length && batches > *length) {
    throw UserError("--val-check-interval=" + std::to_string(batches) + " is never reached: an epoch has " +
                    std::to_string(*length) + " training batches");
  }
  return batches;
}

}  // namespace cohort
