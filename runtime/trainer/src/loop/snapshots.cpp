#include "loop/snapshots.hpp"

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/fit_checkpoints.hpp"
#include "failure/failure.hpp"

namespace cohort {

void Snapshots::offer(SavePoint point) {
  point_ = point;
  hooks_.call("on_save_point", &Callback::on_save_point, point);
}

void Snapshots::offer_unfinished(LoopState& before, const Stopping& stopping, int64_t epoch) {
  if (stopping.agreed().severity == StopReason::Severity::kFailure) return;
  LoopState& state = state_before_stop(before);
  state.end = stopping.training_end(epoch);
  offered_ = &state;
  offer(SavePoint::kStopped);
  offered_ = nullptr;
}

void Snapshots::offer_after_error(LoopState& before, const Stopping& stopping, int64_t epoch) {
  if (tells_of_lost_device() || stopping.agreed().is_abrupt()) return;
  host::Log& log = fit_.runtime.log();
  if (versions_before_hooks_ && *versions_before_hooks_ != versions_of_weights(fit_.session)) {
    log.warning(
        "No checkpoint of the epoch is written: a hook at its end has changed weights; resume from an earlier one");
    return;
  }
  try {
    offer_unfinished(before, stopping, epoch);
    fit_.checkpoints.finish();
  } catch (const std::exception& another) {
    log.warning(another.what());
    return;
  }
  if (fit_.runtime.is_first() && !fit_.checkpoints.newest().empty()) {
    log.info("Checkpoint from before the end of the epoch: " + shown(fit_.checkpoints.newest()));
  }
}

std::optional<std::filesystem::path> Snapshots::save(SaveRequest request, const std::function<LoopState()>& present,
                                                     Stopping& stopping) {
  if (has_failed_) return save_kept(std::move(request));
  if (point_ == SavePoint::kStep && !stopping.is_over() && fit_.session.exchange_votes().stop) stopping.end();
  if (point_ == SavePoint::kStep && stopping.is_over()) return std::nullopt;  // a loss that is not finite, say
  const Timed timed(fit_.profile, Profile::kCheckpoint);
  return fit_.checkpoints.save(request.folder, offered_ ? *offered_ : present(), request.keep,
                               std::move(request.when_written));
}

void Snapshots::keep_steps() {
  if (fit_.runtime.world_size() > 1) {
    throw UserError("a checkpoint after an exception works with one rank, and there are " +
                    std::to_string(fit_.runtime.world_size()) +
                    ": a rank that fails takes its part of the checkpoint with it; write checkpoints beside training "
                    "with --checkpoint-every-n-steps");
  }
  keeps_steps_ = true;
}

void Snapshots::keep(LoopState state, std::optional<MetricBoard> board) {
  kept_.emplace(fit_.session, std::move(state), std::move(board));
}

void Snapshots::weights_may_change() {
  if (kept_) kept_->weights_may_change();
}

std::optional<std::filesystem::path> Snapshots::save_kept(SaveRequest request) {
  if (!kept_ || kept_->steps() == 0) return std::nullopt;
  if (!kept_->fits(fit_.session)) {
    fit_.runtime.log().warning("No checkpoint is written after the error: weights may have changed since step " +
                               std::to_string(kept_->steps()) + " was complete; go on from an earlier checkpoint");
    return std::nullopt;
  }
  const auto place = fit_.checkpoints.opened_as(folder_of_fit(request.folder, fit_.fit_number()));
  auto checkpoint = fit_.checkpoints.save(place, kept_->state(), request.keep, std::move(request.when_written));
  fit_.checkpoints.finish();
  return checkpoint;
}

}  // namespace cohort
