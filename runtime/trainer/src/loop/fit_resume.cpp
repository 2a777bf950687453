// Saves the state of the training loop in checkpoints, and continues a loop from one.
//
// A checkpoint is written at a save point only: between steps, between epochs, or if training stops within an epoch.
// Then it holds the state from before the validation and the hooks that end the epoch, because the run that resumes
// comes to that end itself.
#include <cohort/host/error.hpp>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/fit_checkpoints.hpp"
#include "checkpoint/generators.hpp"
#include "loop/fit_loop.hpp"

namespace cohort {

std::optional<std::filesystem::path> FitLoop::save(const std::filesystem::path& folder, std::optional<int64_t> keep,
                                                   std::function<void()> when_written) {
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
  apply_checkpoint(*resumed_, session_);
  resume_strategy(*resumed_, session_);
  epoch_ = saved.place.epoch;
  batches_ = saved.place.batches;
  for (const std::string& name : callbacks_.restore(saved.callbacks)) {
    if (runtime_.is_first())
      runtime_.log().warning("the checkpoint has the state of a callback '" + name +
                             "', which this training does not have");
  }
  record_.steps_before += resumed_->manifest.step;
  record_.epochs += epoch_;
  for (const auto& [name, value] : saved.latest) record_.metrics[name] = value;
  if (batches_ == 0) resumed_.reset();
  const bool done = (limit_reached() && !resumed_) || (limits_.max_epochs && epoch_ >= *limits_.max_epochs);
  if (done && runtime_.is_first()) runtime_.log().info("Nothing is left to train: the limits were reached before");
}

// In the middle of an epoch. What its start has drawn from the generator, or set in the optimizer and in callbacks, has
// happened before.
void FitLoop::continue_epoch() {
  apply_checkpoint(*resumed_, session_);
  callbacks_.restore(resumed_->loop->callbacks);
  board_.restore(resumed_->loop->records);
  board_.metrics().restore(resumed_->loop->metric_states, resumed_->loop->metric_values);
  validation_means_ = resumed_->loop->validation_means;
  const bool validation_due = resumed_->loop->place.validation_due;
  resumed_.reset();
  if (validation_due && validates_) validate_within_epoch();
  over_ = over_ || limit_reached();
}

LoopPlace FitLoop::place() const {
  return {.fit = fit_,
          .epoch = epoch_,
          .batches = batches_,
          .batch_size = train_.stream ? 1 : train_.batch_size,
          .samples = train_.dataset ? train_.dataset->size() : -1,
          .seed = runtime_.options().seed,
          .shuffle = train_.shuffle};
}

LoopState FitLoop::state(bool validation_due) {
  if (source_) source_->settle();
  LoopState state{.place = place(),
                  .generator = generator_state(),
                  .generator_before_ahead = source_ ? source_->generator_before_ahead() : at::Tensor(),
                  .stream = source_ ? source_->stream_state() : CallbackState(),
                  .records = board_.records(),
                  .metric_states = board_.metrics().states(),
                  .metric_values = board_.metrics().restored_values(),
                  .validation_means = validation_means_,
                  .latest = record_.metrics,
                  .callbacks = runtime_.is_first() ? callbacks_.state() : NamedTensors()};
  state.place.validation_due = validation_due;
  return state;
}

void FitLoop::offer_save(SavePoint point) {
  save_point_ = point;
  call("on_save_point", &Callback::on_save_point, point);
}

void FitLoop::offer_unfinished(const LoopState& before) {
  if (agreed_.severity == StopReason::Severity::kFailure) return;
  saved_state_ = before_stop_ ? &*before_stop_ : &before;
  offer_save(SavePoint::kStopped);
  saved_state_ = nullptr;
}

}  // namespace cohort
