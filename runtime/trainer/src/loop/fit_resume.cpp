// Saves the state of the training loop in checkpoints, and continues a loop from one.
//
// A checkpoint is written at a save point only: between steps, between epochs, or if training stops within an epoch.
// Then it holds the state from before the validation and the hooks that end the epoch, because the run that resumes
// comes to that end itself.
#include <algorithm>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/rank_noise.hpp>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/fit_checkpoints.hpp"
#include "checkpoint/generators.hpp"
#include "loop/fit_loop.hpp"
#include "loop/resume_settings.hpp"

namespace cohort {

std::optional<std::filesystem::path> FitLoop::save(const std::filesystem::path& folder, std::optional<int64_t> keep,
                                                   std::function<void()> when_written) {
  if (has_failed_) return save_kept_step(folder, keep, std::move(when_written));
  if (save_point_ == SavePoint::kStep && !over_) over_ = session_.exchange_votes().stop;
  if (save_point_ == SavePoint::kStep && over_) return std::nullopt;  // a loss that is not finite, say
  const Timed timed(profile_, Profile::kCheckpoint);
  return checkpoints_.save(folder, saved_state_ ? *saved_state_ : state(), keep, std::move(when_written));
}

void FitLoop::begin_where_resumed() {
  const LoopState& saved = *resumed_->loop;
  all_or_none(runtime_, [&] {  // the manifest tells of rank 0's data
    if (runtime_.is_first()) check_same_data(saved.place, place(), resumed_->path);
  });
  divide_what_is_left();
  std::vector<bool> scheduled;
  for (size_t i = 0; i < session_.optimizers().size(); ++i)
    scheduled.push_back(!session_.optimizers().schedules(i).empty());
  const auto lines =
      settle_settings(runtime_.options().resume_settings, optimizer_settings(session_), scheduled, *resumed_);
  for (const std::string& line : lines) {
    if (runtime_.is_first()) runtime_.log().info(line);
  }
  apply_checkpoint(*resumed_, session_);
  seed_added_rank();
  resume_strategy(*resumed_, session_);
  epoch_ = saved.place.epoch;
  batches_ = saved.place.batches;
  names_are_checked_ = true;  // by the run before
  for (const std::string& sentence : callbacks_.restore(saved.callbacks)) {
    if (runtime_.is_first()) runtime_.log().warning(sentence);
  }
  record_.steps_before += resumed_->manifest.step;
  record_.epochs += epoch_;
  for (const auto& [name, value] : saved.latest) record_.metrics[name] = value;
  heed_end(resumed_->manifest.end);
  if (batches_ == 0) resumed_.reset();
}

// The checkpoint has no random numbers of a rank that was added. If all ranks draw alike it has those of another one.
void FitLoop::seed_added_rank() {
  const bool is_apart = runtime_.options().rank_noise == RankNoise::kApart;
  if (!is_apart || runtime_.rank() < resumed_->manifest.world_size) return;
  seed_model(runtime_, {static_cast<uint64_t>(fit_), resumed_->manifest.step});
}

void FitLoop::heed_end(const std::optional<TrainingEnd>& end) {
  if (end) agree_on_stop(still_ended_by(*end));
  const bool at_limit = limit_reached() || (limits_.max_epochs && epoch_ >= *limits_.max_epochs);
  if (!runtime_.is_first()) return;
  if (over_) {
    runtime_.log().info("Nothing is left to train: " + end->text +
                        (end->callback.empty() ? "" : "; other settings of " + end->callback + " resume it"));
  } else if (at_limit) {
    runtime_.log().info("Nothing is left to train: the limits were reached before");
  } else if (end) {
    runtime_.log().info("The training had ended: " + end->text +
                        "; this run has other limits or settings and resumes it");
  }
}

StopReason FitLoop::still_ended_by(const TrainingEnd& end) const {
  const Callback* const callback = callbacks_.find(end.callback);
  if (end.limit || !callback || host::on_one_line(callback->settings()) != end.settings) return {};
  return {.severity = StopReason::Severity::kEnd,
          .exit_reason = end.exit_reason,
          .text = end.text,
          .step = step(),
          .callback = end.callback};
}

std::optional<TrainingEnd> FitLoop::training_end() const {
  const auto at = [](const char* limit, int64_t value) {
    return TrainingEnd{limit, std::string(limit) + " " + std::to_string(value) + " is reached", {}, {}, value};
  };
  if (agreed_.is_abrupt()) return std::nullopt;
  if (!agreed_.is_none() && agreed_.is_final) {
    const Callback* const callback = callbacks_.find(agreed_.callback);
    return TrainingEnd{host::on_one_line(agreed_.exit_reason),
                       host::on_one_line(agreed_.text),
                       agreed_.callback,
                       callback ? host::on_one_line(callback->settings()) : "",
                       {}};
  }
  if (limit_reached()) return at("max_steps", *limits_.max_steps);
  if (limits_.max_epochs && epoch_ >= *limits_.max_epochs) return at("max_epochs", *limits_.max_epochs);
  return std::nullopt;
}

// In the middle of an epoch: ranks take turns in its order of samples, so what W ranks have trained on is the beginning
// of that order, and another number of ranks takes turns in the rest. Throws UserError on all ranks alike if there is
// no such order.
void FitLoop::divide_what_is_left() {
  const LoopPlace& saved = resumed_->loop->place;
  const int ranks = resumed_->manifest.world_size;
  more_steps_ = saved.more_steps;
  if (ranks == runtime_.world_size()) {
    earlier_ = {saved.earlier_batches, saved.earlier_samples};
    return;
  }
  if (saved.batches > 0) earlier_ = part_before(saved, ranks);
  more_steps_ += steps_before(saved.epoch, ranks) - steps_before(saved.epoch, runtime_.world_size());
}

EarlierPart FitLoop::part_before(const LoopPlace& saved, int ranks) const {
  if (!has_equal_ranks()) {
    const std::string number = std::to_string(ranks);
    throw UserError(resumed_->path.string() + " was taken in the middle of epoch " + std::to_string(saved.epoch) +
                    " of " + number + " rank(s), and which samples are left to another number of ranks is known only " +
                    "for a dataset that all of them share, without a sampler of its own: resume with " + number +
                    ", or from a checkpoint at the end of an epoch");
  }
  const int64_t most = saved.samples / saved.batch_size + 1;  // a manifest may claim any number
  const int64_t samples = std::min(saved.batches - saved.earlier_batches, most) * saved.batch_size * ranks;
  return {saved.batches, std::min(saved.earlier_samples + samples, saved.samples)};
}

// Returns the steps in which so many ranks would have come to this place of the data, in the epoch of this number.
int64_t FitLoop::steps_before(int64_t epoch, int ranks) const {
  const auto steps_of = [&](int64_t batches) { return (batches + limits_.accumulate - 1) / limits_.accumulate; };
  const int64_t whole = planned_batches(train_, ranks, limits_.train).value_or(0);
  const int64_t end = planned_batches(train_, ranks, limits_.train, earlier_).value_or(0);
  return (epoch + 1) * steps_of(whole) - steps_of(end - earlier_.batches);
}

// In the middle of an epoch. What its start has drawn from the generator, or set in the optimizer and in callbacks, has
// happened before.
void FitLoop::continue_epoch() {
  apply_checkpoint(*resumed_, session_);
  seed_added_rank();
  callbacks_.restore(resumed_->loop->callbacks);
  board_.restore(resumed_->loop->records);
  board_.metrics().restore(resumed_->loop->metric_states, resumed_->loop->metric_values);
  validation_means_ = resumed_->loop->validation_means;
  if (is_logging_step()) logged_steps_ = step();  // before the checkpoint was written
  const bool validation_due = resumed_->loop->place.validation_due;
  resumed_.reset();
  if (validation_due && validates_) validate_within_epoch();
  over_ = over_ || limit_reached();
}

LoopPlace FitLoop::place() const {
  return {.fit = fit_,
          .epoch = epoch_,
          .batches = batches_,
          .earlier_batches = earlier_.batches,
          .earlier_samples = earlier_.samples,
          .more_steps = more_steps_,
          .batch_size = train_.stream ? 1 : train_.batch_size,
          .samples = train_.dataset ? train_.dataset->size() : -1,
          .seed = runtime_.options().seed,
          .shuffle = train_.shuffle};
}

LoopState FitLoop::state(bool validation_due) {
  LoopState state = state_without_records();
  state.place.validation_due = validation_due;
  state.records = board_.records();
  return state;
}

LoopState FitLoop::state_without_records() {
  if (source_) source_->settle();
  return {.place = place(),
          .end = training_end(),
          .generator = generator_state(),
          .device_generators = {},
          .generator_before_ahead = source_ ? source_->generator_before_ahead() : at::Tensor(),
          .stream = source_ ? source_->stream_state() : CallbackState(),
          .records = {},
          .metric_states = board_.metrics().states(),
          .metric_values = board_.metrics().restored_values(),
          .validation_means = validation_means_,
          .latest = record_.metrics,
          .optimizers = optimizer_settings(session_),
          .callbacks = callbacks_.state(runtime_.is_first())};
}

void FitLoop::keep_steps() {
  if (runtime_.world_size() > 1) {
    throw UserError("a checkpoint after an exception works with one rank, and there are " +
                    std::to_string(runtime_.world_size()) +
                    ": a rank that fails takes its part of the checkpoint with it; write checkpoints beside training "
                    "with --checkpoint-every-n-steps");
  }
  keeps_steps_ = true;
}

void FitLoop::keep_step() {
  if (keeps_steps_) kept_.emplace(session_, state_without_records(), board_.copy());
}

std::optional<std::filesystem::path> FitLoop::save_kept_step(const std::filesystem::path& folder,
                                                             std::optional<int64_t> keep,
                                                             std::function<void()> when_written) {
  if (!kept_ || kept_->steps() == 0) return std::nullopt;
  if (!kept_->fits(session_)) {
    runtime_.log().warning("No checkpoint is written after the error: weights may have changed since step " +
                           std::to_string(kept_->steps()) + " was complete; go on from an earlier checkpoint");
    return std::nullopt;
  }
  const auto place = checkpoints_.opened_as(folder_of_fit(folder, fit_));
  auto checkpoint = checkpoints_.save(place, kept_->state(), keep, std::move(when_written));
  checkpoints_.finish();
  return checkpoint;
}

void FitLoop::offer_save(SavePoint point) {
  save_point_ = point;
  call("on_save_point", &Callback::on_save_point, point);
}

void FitLoop::offer_unfinished(LoopState& before) {
  if (agreed_.severity == StopReason::Severity::kFailure) return;
  LoopState& state = before_stop_ ? *before_stop_ : before;
  state.end = training_end();
  saved_state_ = &state;
  offer_save(SavePoint::kStopped);
  saved_state_ = nullptr;
}

}  // namespace cohort
