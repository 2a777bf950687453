#include "loop/fit_loop.hpp"

#include <algorithm>

#include <torch/csrc/autograd/anomaly_mode.h>

#include <cohort/host/error.hpp>
#include <cohort/rank_noise.hpp>

#include "checkpoint/generators.hpp"
#include "failure/failure.hpp"
#include "loop/gathered_report.hpp"
#include "loop/gradient_norm.hpp"
#include "loop/unused_parameters.hpp"
#include "metrics/epoch_state.hpp"
#include "module/step_access.hpp"
#include "replicas/replicas.hpp"

namespace cohort {

FitLoop::FitLoop(const FitContext& context, FitData data)
    : context_(context),
      train_(std::move(data.train)),
      hooks_(context_, *this),
      stopping_(context_),
      joining_(context_, train_),
      epoch_(context_, train_),
      reporting_(context_, hooks_),
      steps_(context_, hooks_,
             {.vote = [this] { vote(); },
              .note_loss =
                  [this](const at::Tensor& loss, uint64_t step) {
                    if (auto reason = reporting_.note_loss(loss, step)) stop(std::move(*reason));
                  },
              .weights_may_change = [this] { snapshots_.weights_may_change(); },
              .is_last = [this] { return epoch_.available(1) == 0; }}),
      validation_(context_, hooks_, std::move(data.validation)),
      awaited_(context_),
      snapshots_(context_, hooks_) {}

StopReason FitLoop::run(std::optional<LoadedCheckpoint> resumed) {
  try {
    resumed_ = std::move(resumed);
    return run_epochs();
  } catch (const std::exception& error) {
    if (!tells_of_lost_device()) tell_of(error);  // a callback that looks at a tensor would hide the cause
    throw;
  }
}

// An error of the hook must not hide the error that it is called for.
void FitLoop::tell_of(const std::exception& error) {
  snapshots_.fail();
  try {
    hooks_.call("on_exception", &Callback::on_exception, error);
  } catch (const std::exception& another) {
    context_.runtime.log().warning(another.what());
  }
}

StopReason FitLoop::run_epochs() {
  Runtime& runtime = context_.runtime;
  const TimedLoop timed(context_.profile);
  joining_.compare_data();
  if (context_.options().graph) joining_.require_equal_sizes();
  epoch_.plan();
  validation_.check_data();
  const detail::StepAccess::Using session(module(), context_.session);
  context_.session.set_hooks(steps_.driver_hooks());
  std::optional<torch::autograd::DetectAnomalyGuard> detect_anomaly;
  if (context_.options().detect_anomaly) detect_anomaly.emplace();
  const uint64_t bytes_before = runtime.bytes_sent();
  if (resumed_) begin_where_resumed();
  tell_module();
  hooks_.call("on_fit_start", &Callback::on_fit_start);
  if (step() == 0 && !resumed_) seed_model(runtime, {static_cast<uint64_t>(context_.fit_number())});
  check_sanity();
  while (may_begin_epoch()) run_epoch();
  context_.record.bytes_sent += runtime.bytes_sent() - bytes_before;
  if (!stopping_.agreed().is_abrupt() && context_.limits.train.count != 0) {
    hooks_.ask();
    stopping_.adopt_late_signal();
  }
  hooks_.call("on_fit_end", &Callback::on_fit_end);
  return stopping_.agreed();
}

// An epoch that was left at the end of a training still has its own end before it. Epochs without a step would never
// end.
bool FitLoop::may_begin_epoch() const {
  const LoopLimits& limits = context_.limits;
  return limits.train.count != 0 && (!limits.max_epochs || epoch() < *limits.max_epochs) &&
         (resumed_ || (!stopping_.is_over() && !stopping_.is_at_step_limit()));
}

void FitLoop::tell_module() {
  auto& place = detail::StepAccess::place(module());
  place.step = step();
  place.epoch = epoch();
  place.total_steps = total_steps();
}

void FitLoop::run_epoch() {
  if (!resumed_) keep_step();
  epoch_.open(joining_, resumed_ ? &*resumed_ : nullptr);
  validation_.begin_epoch(epoch(), epoch_.length());
  epoch_.require_batches(joining_);
  tell_module();
  module().train();
  hooks_.call("on_train_epoch_start", &Callback::on_train_epoch_start);
  context_.replicas.follow_modes();
  reporting_.board().clear();
  validation_.set_means({});
  if (resumed_) continue_epoch();
  reporting_.start_clock();
  const Module::Recording recording(module(), reporting_.board_or_none());
  while (!is_epoch_over()) {
    if (batch() > 0) keep_step();  // the first step of an epoch is taken again from before its beginning
    const int64_t batches_before = batch();
    take_step(epoch_.available(context_.limits.accumulate));
    if (step() > 0) awaited_.check_after_step(reporting_.board(), validation_, stopping_);
    if (validation_.is_due_between(batches_before, batch())) {
      validate_within_epoch();
      reporting_.start_clock();
    }
    if (!is_epoch_over()) snapshots_.offer(SavePoint::kStep);
  }
  finish_epoch();
}

void FitLoop::take_step(int64_t window) {
  const TimedStep timed(context_.profile);
  const int64_t batches_before = batch();
  Votes votes;
  if (window > 0) {
    {
      std::optional<NoSync> no_sync;
      if (window > 1) no_sync.emplace(context_.session);
      for (int64_t i = 1; i < window; ++i) train_on_next(window, /*ends_step=*/false);
    }
    votes = train_on_next(window, /*ends_step=*/true);
    context_.replicas.check_registered();
  } else {
    reporting_.board().begin_batch(0);  // what hooks log has no weight in the means
    votes = steps_.run({.batch = nullptr, .index = batches_before, .share = 0, .ends_step = true}, nullptr);
  }
  note_step(votes, batches_before, window);
  hooks_.end_step();
}

Votes FitLoop::train_on_next(int64_t window, bool ends_step) {
  const Batch next = epoch_.next();
  const int64_t samples = next.batch_size();
  hooks_.begin_batch(batch());
  reporting_.board().begin_batch(samples);
  hooks_.call("on_train_batch_start", &Callback::on_train_batch_start, next);
  const MicroBatch micro{.batch = &next,
                         .index = batch(),
                         .share = joining_.weight_of_loss() / static_cast<double>(window),
                         .ends_step = ends_step};
  const Votes votes = steps_.run(micro, reporting_.board_or_none());
  epoch_.count_batch();
  context_.record.samples += static_cast<uint64_t>(samples);
  hooks_.call("on_train_batch_end", &Callback::on_train_batch_end, next);
  return votes;
}

void FitLoop::vote() {
  hooks_.ask();
  context_.session.vote({.stop = !stopping_.wish().is_none(), .out_of_data = epoch_.available(1) == 0});
}

void FitLoop::note_step(Votes votes, int64_t batches_before, int64_t window) {
  if (joining_.joins()) {
    joining_.count_active(epoch_.available(1) > 0);
    epoch_.end_step(batches_before + joining_.batches_of_step(window), !joining_.has_active_ranks());
  } else {
    epoch_.end_step(batch(), votes.out_of_data);
  }
  reporting_.count_step(validation_.attempted_for());
  if (votes.stop || stopping_.is_at_step_limit()) stopping_.end();
  tell_module();
  hooks_.call("on_step_end", &Callback::on_step_end);
  reporting_.log_step();
}

void FitLoop::check_sanity() {
  awaited_.check_before_training();
  const LoopLimits& limits = context_.limits;
  if (limits.sanity_batches == 0 || !validation_.is_on() || step() > 0 || stopping_.is_over()) return;
  BatchLimit limit = limits.validation;
  if (limits.sanity_batches > 0) {
    limit = {.count = std::min(limit.count.value_or(limits.sanity_batches), limits.sanity_batches), .fraction = {}};
  }
  const MergedReport merged = validation_.attempt(limit, stopping_);
  stopping_.adopt(merged.stop);
  awaited_.note_validated(merged.means);
}

void FitLoop::validate_within_epoch() {
  LoopState before = state(/*validation_due=*/true);
  if (snapshots_.keeps_steps()) {
    snapshots_.keep(before);
    // A run that resumes there has no step left that would bring the metric objects.
    if (epoch_.available(1) == 0) {
      snapshots_.set_kept_metric_values(
          gather_report(context_.runtime, reporting_.board(), {}, /*is_complete=*/true).values);
    }
  }
  validate();
  if (stopping_.is_over()) snapshots_.set_before_stop(std::move(before));
  stopping_.agree();
}

void FitLoop::validate() {
  const Timed timed(context_.profile, Profile::kValidation);
  const MergedReport merged = validation_.evaluate(reporting_.board(), stopping_);
  reporting_.show_on_bar(merged.on_bar);
  stopping_.adopt(merged.stop);
  validation_.set_means(stopping_.agreed().is_abrupt() ? Metrics() : merged.means);
  for (const auto& [name, value] : validation_.means()) context_.record.metrics[name] = value;
  hooks_.call("on_validation_end", &Callback::on_validation_end, validation_.means());
}

void FitLoop::finish_epoch() {
  hooks_.ask();
  const bool is_complete = epoch_.is_complete(joining_);
  // A run that resumes at a limit takes no step either, which would bring the metrics: it needs their values.
  RankReport own{.stop = stopping_.wish()};
  if (epoch() == 0) own.unused = context_.session.unused_parameters();
  const bool has_values = is_complete || stopping_.is_at_step_limit();
  const auto merged = gather_report(context_.runtime, reporting_.board(), own, has_values);
  stopping_.adopt(merged.stop);
  // After a signal the resumed run logs these values, at the same step as a run that was not stopped.
  const auto is_interrupted = [&] { return stopping_.agreed().severity == StopReason::Severity::kInterrupt; };
  if (!is_complete && !is_interrupted()) reporting_.log_last_step();
  LoopState before = state();
  LoopState& unfinished = snapshots_.state_before_stop(before);
  replace_metric_values(unfinished.entries, merged.values);
  if (snapshots_.keeps_steps()) snapshots_.keep(unfinished);
  if (!is_complete) snapshots_.offer_unfinished(before, stopping_, epoch());
  if (is_complete) ++context_.record.epochs;
  // An error may leave other ranks anywhere. If all ranks make the same mistake, they can still save the epoch
  // together.
  const auto save_after_error = [&](bool is_of_all_ranks) {
    if (is_complete && is_of_all_ranks) snapshots_.offer_after_error(before, stopping_, epoch());
  };
  bool finished = false;
  try {
    finished = end_epoch(merged, is_complete, before);
  } catch (const MistakeOfAllRanks&) {
    save_after_error(true);
    throw;
  } catch (const UserError&) {
    save_after_error(context_.runtime.world_size() == 1);
    throw;
  } catch (const TrainingFailed&) {
    save_after_error(context_.runtime.world_size() == 1);
    throw;
  }
  if (finished) begin_next_epoch();
}

bool FitLoop::end_epoch(const MergedReport& merged, bool is_complete, LoopState& before) {
  snapshots_.forget_weights();
  const bool warns = is_complete && context_.limits.report && context_.runtime.is_first();
  if (warns) warn_of_unused(context_.runtime.log(), merged.unused);
  reporting_.publish(merged.means);
  if (validation_.is_due_at_end_of(epoch()) && !merged.stop.is_abrupt()) validate();
  const StopReason& agreed = stopping_.agreed();
  // After a signal in the validation the resumed run validates again, and logs the step then.
  if (is_complete && agreed.severity != StopReason::Severity::kInterrupt) reporting_.log_last_step();
  const bool finished = is_complete && !agreed.is_abrupt();
  if (!finished) snapshots_.offer_unfinished(before, stopping_, epoch());
  snapshots_.note_weights();
  Metrics means = end_epoch_of_module();
  means.insert(merged.means.begin(), merged.means.end());
  means.insert(validation_.means().begin(), validation_.means().end());
  if (!agreed.is_abrupt()) {
    hooks_.call("on_train_epoch_end", &Callback::on_train_epoch_end, means);
    stopping_.agree();
  }
  return finished;
}

// Returns what the module has logged at the end of the epoch: the means over the ranks, unless training stops abruptly.
Metrics FitLoop::end_epoch_of_module() {
  MetricBoard board(MetricBoard::Pass::kEpochEnd);
  {
    const Module::Recording recording(module(), context_.limits.report ? &board : nullptr);
    in_hook(hooks_.place("on_train_epoch_end"), [&] { module().on_train_epoch_end(epoch()); });
  }
  if (stopping_.agreed().is_abrupt()) return {};
  Metrics means = merge_reports(context_.runtime.all_gather(to_text({.totals = board.totals()}))).means;
  reporting_.publish(means, board);
  return means;
}

void FitLoop::begin_next_epoch() {
  epoch_.begin_next();
  reporting_.board().metrics().reset();
  reporting_.board().clear();
  validation_.set_means({});
  snapshots_.offer(SavePoint::kEpoch);
}

std::optional<std::filesystem::path> FitLoop::save(const std::filesystem::path& folder, std::optional<int64_t> keep,
                                                   std::function<void()> when_written) {
  return snapshots_.save(
      {folder, keep, std::move(when_written)}, [this] { return state(); }, stopping_);
}

void FitLoop::open(const std::filesystem::path& folder) {
  context_.checkpoints.open(context_.checkpoints.opened_as(folder));
}

double FitLoop::gradient_norm(size_t optimizer, double p) {
  return cohort::gradient_norm(context_.session, optimizer, p);
}

}  // namespace cohort
