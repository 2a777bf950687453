// The training loop.
//
// An epoch is a sequence of steps; a step is one or several micro-batches, each through every phase (optimizer), and a
// vote: whether a rank wants to stop, and whether one has no more batches. Callbacks say why to stop (stop()), which
// becomes this rank's wish; the votes carry the fact, and the exchange at the end of the epoch the reason.
//
// With --uneven=join an epoch whose ranks may have different numbers of batches goes on until none has any: before each
// step they count those that have one. The others take the step without a batch, so that their gradients are zeros, and
// the losses of those that have one weigh more, so that the mean over all ranks is that over the active ones. As each
// rank takes whole windows until its data ends, one count of batches (batches_) is the place of all of them.
#include "loop/fit_loop.hpp"

#include <algorithm>
#include <array>

#include <torch/csrc/autograd/anomaly_mode.h>

#include <cohort/host/error.hpp>
#include <cohort/rank_noise.hpp>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/generators.hpp"
#include "failure/failure.hpp"
#include "loop/data_of_ranks.hpp"
#include "loop/gathered_report.hpp"
#include "loop/open_data.hpp"
#include "loop/unused_parameters.hpp"
#include "module/step_access.hpp"

namespace cohort {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double seconds_since(std::chrono::nanoseconds realtime) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now - realtime).count();
}

}  // namespace

FitLoop::FitLoop(Runtime& runtime, RunRecord& record, const LoopLimits& limits, Replicas& replicas, FitData data,
                 StepDriver& session, const CallbackList& callbacks, CheckpointWriter& checkpoints, int64_t fit,
                 Profile* profile)
    : runtime_(runtime),
      record_(record),
      limits_(limits),
      replicas_(replicas),
      module_(replicas.module()),
      session_(session),
      callbacks_(callbacks),
      checkpoints_(checkpoints),
      fit_(fit),
      profile_(profile),
      train_(std::move(data.train)),
      validation_(std::move(data.validation)),
      validates_(limits.validate && !validation_.empty() && limits.validation.count != 0) {
  if (const auto warm_up = runtime.options().graph) graph_.emplace(runtime_, module_, session_, profile_, *warm_up);
}

HookPlace FitLoop::place_of(const char* hook, const Batch* batch) const {
  return {.hook = hook, .epoch = epoch_, .index = index_, .rank = runtime_.rank(), .batch = batch};
}

void FitLoop::stop(StopReason reason) {
  if (reason.is_none()) reason.severity = StopReason::Severity::kEnd;
  reason.step = session_.steps();
  reason.callback = callbacks_.called();
  const bool is_more_final = reason.severity == wish_.severity && reason.is_final && !wish_.is_final;
  if (reason.severity > wish_.severity || is_more_final) wish_ = std::move(reason);
}

void FitLoop::compare_data() {
  const std::string own = data_text(train_);
  has_equal_data_ = runtime_.is_same_on_all_ranks(own, "comparing the ranks' training data");
  if (has_equal_data_) return;
  const std::string warning = warning_of_data(runtime_.all_gather(own), runtime_.options().uneven);
  if (runtime_.is_first()) runtime_.log().warning(warning);
}

StopReason FitLoop::run_epochs(std::optional<LoadedCheckpoint> resumed) {
  const TimedLoop timed(profile_);
  resumed_ = std::move(resumed);
  compare_data();
  if (graph_) require_equal_batches();
  epoch_length_ = whole_epoch_length_ = planned_batches(train_, runtime_.world_size(), limits_.train);
  if (validates_) {  // a mistake in it is better found now than after an epoch
    const Shard shard{runtime_.rank(), runtime_.world_size(), runtime_.options().seed, 0};
    for (size_t i = 0; i < validation_.size(); ++i) {
      count_batches(validation_[i], shard, Purpose::kEvaluation, limits_.validation,
                    name_of_loader("validation data", validation_, i));
    }
  }
  const detail::StepAccess::Using session(module_, session_);
  session_.set_hooks(step_hooks());
  std::optional<torch::autograd::DetectAnomalyGuard> detect_anomaly;
  if (runtime_.options().detect_anomaly) detect_anomaly.emplace();
  const uint64_t bytes_before = runtime_.bytes_sent();
  if (resumed_) begin_where_resumed();
  tell_module();
  call("on_fit_start", &Callback::on_fit_start);
  if (step() == 0 && !resumed_) seed_model(runtime_, {static_cast<uint64_t>(fit_)});
  check_sanity();
  // An epoch that was left at the end of a training still has its own end before it. Epochs without a step would never
  // end.
  while (limits_.train.count != 0 && (!limits_.max_epochs || epoch_ < *limits_.max_epochs) &&
         (resumed_ || (!over_ && !limit_reached()))) {
    run_epoch();
  }
  record_.bytes_sent += runtime_.bytes_sent() - bytes_before;
  hear_late_signal();
  call("on_fit_end", &Callback::on_fit_end);
  return agreed_;
}

// One that came with the last checkpoint: whatever would follow this training shall not begin.
void FitLoop::hear_late_signal() {
  if (agreed_.is_abrupt() || limits_.train.count == 0) return;
  ask_callbacks();
  const StopReason late = merge_reports(runtime_.all_gather(to_text({wish_, {}}))).stop;
  if (late.is_abrupt()) agreed_ = late;
}

bool FitLoop::limit_reached() const {
  return limits_.max_steps && session_.steps() >= static_cast<uint64_t>(*limits_.max_steps);
}

// A stream reads as far ahead as it is asked.
int64_t FitLoop::available(int64_t batches) {
  const Timed timed(train_.stream ? profile_ : nullptr, Profile::kData);
  return source_->available(batches);
}

Batch FitLoop::next_batch() {
  const Timed timed(profile_, Profile::kData);
  return source_->next();
}

void FitLoop::open_epoch() {
  const Timed timed(profile_, Profile::kData);
  const Shard shard{runtime_.rank(), runtime_.world_size(), seed_of_fit(runtime_.options().seed, fit_), epoch_};
  batches_ = resumed_ ? resumed_->loop->place.batches : 0;
  const PassBegin begin{batches_, earlier_, resumed_ ? resumed_->loop->stream : CallbackState()};
  source_ = open_batches(train_, shard, Purpose::kTraining, limits_.train, "training data", begin, runtime_.device());
  const bool is_alike = runtime_.options().rank_noise == RankNoise::kAlike;
  const bool is_known = resumed_ && (is_alike || runtime_.rank() < resumed_->manifest.world_size);
  if (is_known && resumed_->loop->generator_before_ahead.defined()) {  // what was read ahead is read again
    set_generator_state(resumed_->loop->generator_before_ahead, resumed_->path.string());
  }
  // Only a vote in every step ends an epoch with the first rank that runs out of batches; where all have equally many
  // the end needs no vote, and the rest can wait for the step that is logged.
  session_.vote_every(has_equal_ranks() ? static_cast<uint64_t>(limits_.log_every_n_steps) : 1);
  const int64_t left = source_->available(train_.stream ? 1 : std::numeric_limits<int64_t>::max());
  source_->settle();
  const int64_t left_to_all = left_of_epoch(left);
  out_of_data_ = left_to_all == 0;
  epoch_length_ = train_.stream ? std::nullopt : std::optional(batches_ + left_to_all);
  validation_interval_ =
      validates_in_epoch() ? validation_interval(limits_.val_check_interval, epoch_length_) : std::nullopt;
  if (batches_ + left_to_all == 0 && limits_.train.count != 0) {
    throw UserError("the training data gave no batch in epoch " + std::to_string(epoch_) +
                    (joins() ? " on any rank; one of them needs one" : " on at least one rank; every rank needs one") +
                    " in each epoch");
  }
}

// Returns the number of batches up to the end of the epoch on all ranks; of a stream at most one. Collective if the
// ranks may differ.
int64_t FitLoop::left_of_epoch(int64_t own) {
  if (has_equal_ranks()) return own;
  std::array<double, 2> most_and_fewest{static_cast<double>(own), -static_cast<double>(own)};
  runtime_.all_reduce_max(most_and_fewest);
  if (joins()) count_active_ranks();
  return static_cast<int64_t>(joins() ? most_and_fewest[0] : -most_and_fewest[1]);
}

void FitLoop::tell_module() {
  auto& place = detail::StepAccess::place(module_);
  place.step = step();
  place.epoch = epoch_;
  place.total_steps = total_steps();
}

void FitLoop::run_epoch() {
  if (!resumed_) keep_step();
  open_epoch();
  tell_module();
  module_.train();
  call("on_train_epoch_start", &Callback::on_train_epoch_start);
  replicas_.follow_modes();
  board_.clear();
  validation_means_.clear();
  if (resumed_) continue_epoch();
  step_begun_ = Clock::now();
  const Module::Recording recording(module_, limits_.report ? &board_ : nullptr);
  while (!is_epoch_over()) {
    if (batches_ > 0) keep_step();  // the first step of an epoch is taken again from before its beginning
    const int64_t batches_before = batches_;
    take_step(available(limits_.accumulate));
    if (step() > 0 && !std::exchange(names_are_checked_, true)) check_awaited_metrics();
    if (validation_interval_) validate_at_interval(batches_before);
    if (!is_epoch_over()) offer_save(SavePoint::kStep);
  }
  finish_epoch();
}

void FitLoop::note_step(Votes votes) {
  const auto now = Clock::now();
  ++record_.steps;
  record_.add_step_time(now - step_begun_);
  record_.training_seconds += seconds_between(step_begun_, now);
  if (record_.steps == 1)
    record_.seconds_to_first_step = seconds_since(record_.started) - std::chrono::duration<double>(tried_for_).count();
  step_begun_ = now;
  out_of_data_ = joins() ? active_ranks_ == 0 : votes.out_of_data;
  over_ = votes.stop || limit_reached();
  tell_module();
  call("on_step_end", &Callback::on_step_end);
  if (is_logging_step()) log_step_values();
}

void FitLoop::log_step_values() {
  if (!limits_.report) return;
  StepValues values = board_.take_step_values();
  show_on_bar(board_, values);
  logged_steps_ = session_.steps();
  callbacks_.add_step_values(place_of("on_step_values"), *this, values);
  for (const auto& [name, value] : values) record_.metrics[name] = value;
}

// Logs the step before an end. After a signal the resumed run does, at the step at which one that was not stopped does.
void FitLoop::log_last_step() {
  if (agreed_.severity != StopReason::Severity::kInterrupt && logged_steps_ != step()) log_step_values();
}

template <class Values>
void FitLoop::show_on_bar(const MetricBoard& board, const Values& values) {
  for (const auto& [name, value] : values) {
    if (board.is_on_bar(name)) on_bar_[name] = value;
  }
}

Metrics FitLoop::bar_values() const {
  Metrics values = on_bar_;
  if (loss_ && !values.empty()) values.emplace("loss", *loss_);  // unless the module logs its own
  return values;
}

// All ranks learn why one of them wants to stop. Collective.
void FitLoop::agree_on_stop(const StopReason& own) {
  adopt(merge_reports(runtime_.all_gather(to_text({own, {}}))).stop);
}

void FitLoop::adopt(const StopReason& agreed) {
  if (agreed.is_none()) return;
  const bool is_more_final = agreed.severity == agreed_.severity && agreed.is_final && !agreed_.is_final;
  if (agreed.severity > agreed_.severity || is_more_final) agreed_ = agreed;
  over_ = true;
}

void FitLoop::finish_epoch() {
  ask_callbacks();
  const bool complete = is_complete();
  // A run that resumes at a limit takes no step either, which would bring the metrics: it needs their values.
  RankReport own{.stop = wish_};
  if (epoch_ == 0) own.unused = session_.unused_parameters();
  const auto merged = gather_report(runtime_, board_, own, complete || limit_reached());
  adopt(merged.stop);
  if (!complete) log_last_step();
  LoopState before = state();
  (before_stop_ ? *before_stop_ : before).metric_values = merged.values;
  if (keeps_steps_) kept_.emplace(session_, before_stop_ ? *before_stop_ : before);
  if (!complete) offer_unfinished(before);
  if (complete) ++record_.epochs;
  bool finished = false;
  try {
    finished = end_epoch(merged, complete, before);
  } catch (const MistakeOfAllRanks&) {
    if (complete) save_before_failure(before);
    throw;
  } catch (const UserError&) {
    if (complete && runtime_.world_size() == 1) save_before_failure(before);
    throw;
  } catch (const TrainingFailed&) {
    if (complete && runtime_.world_size() == 1) save_before_failure(before);
    throw;
  }
  if (finished) begin_next_epoch();
}

// The epoch is not lost if its validation or a hook at its end fails. What another rank does then is not known, so only
// a mistake that all of them come to is treated so.
void FitLoop::save_before_failure(LoopState& before) {
  if (tells_of_lost_device() || agreed_.is_abrupt()) return;
  if (versions_before_hooks_ && *versions_before_hooks_ != versions_of_weights(session_)) {
    runtime_.log().warning(
        "No checkpoint of the epoch is written: a hook at its end has changed weights; resume from an earlier one");
    return;
  }
  try {
    offer_unfinished(before);
    checkpoints_.finish();
  } catch (const std::exception& another) {
    runtime_.log().warning(another.what());
    return;
  }
  if (runtime_.is_first() && !checkpoints_.newest().empty()) {
    runtime_.log().info("Checkpoint from before the end of the epoch: " + shown(checkpoints_.newest()));
  }
}

bool FitLoop::end_epoch(const MergedReport& merged, bool complete, LoopState& before) {
  versions_before_hooks_.reset();
  if (complete && limits_.report && runtime_.is_first()) warn_of_unused(runtime_.log(), merged.unused);
  for (const auto& [name, value] : merged.means) record_.metrics[name] = value;
  show_on_bar(board_, merged.means);
  if (validates_in_epoch() && !limits_.val_check_interval && !merged.stop.is_abrupt()) validate();
  if (complete) log_last_step();  // a signal in the validation lets it be run again
  const bool finished = complete && !agreed_.is_abrupt();
  if (!finished) offer_unfinished(before);
  versions_before_hooks_ = versions_of_weights(session_);
  Metrics means = end_epoch_of_module();
  means.insert(merged.means.begin(), merged.means.end());
  means.insert(validation_means_.begin(), validation_means_.end());
  if (!agreed_.is_abrupt()) {
    call("on_train_epoch_end", &Callback::on_train_epoch_end, means);
    agree_on_stop(wish_);
  }
  return finished;
}

// Returns what the module has logged at the end of the epoch: the means over the ranks, unless training stops abruptly.
Metrics FitLoop::end_epoch_of_module() {
  MetricBoard board(MetricBoard::Pass::kEpochEnd);
  {
    const Module::Recording recording(module_, limits_.report ? &board : nullptr);
    in_hook(place_of("on_train_epoch_end"), [&] { module_.on_train_epoch_end(epoch_); });
  }
  if (agreed_.is_abrupt()) return {};
  Metrics means = merge_reports(runtime_.all_gather(to_text({.totals = board.totals()}))).means;
  for (const auto& [name, value] : means) record_.metrics[name] = value;
  show_on_bar(board, means);
  return means;
}

void FitLoop::begin_next_epoch() {
  ++epoch_;
  batches_ = 0;
  earlier_ = {};
  board_.metrics().reset();
  board_.clear();
  validation_means_.clear();
  source_.reset();
  offer_save(SavePoint::kEpoch);
}

}  // namespace cohort
