// Offers the states of a training to callbacks, which may save them as checkpoints.
//
// A checkpoint is written at a save point only: between steps, between epochs, or if training stops within an epoch.
// Then it holds the state from before the validation and the hooks that end the epoch, because the run that resumes
// comes to that end itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "checkpoint/loop_state.hpp"
#include "loop/fit_context.hpp"
#include "loop/kept_step.hpp"
#include "loop/stopping.hpp"

namespace cohort {

/// The arguments of Fit::save.
struct SaveRequest {
  const std::filesystem::path& folder;
  std::optional<int64_t> keep;
  std::function<void()> when_written;
};

class Snapshots {
 public:
  Snapshots(const FitContext& fit, const FitHooks& hooks) : fit_(fit), hooks_(hooks) {}

  /// Calls callbacks, which may save the present state.
  void offer(SavePoint point);
  /// Calls callbacks, which may save the state from before the validation that stopped the training, else `before`.
  /// The epoch is not complete in it.
  void offer_unfinished(LoopState& before, const Stopping& stopping, int64_t epoch);
  /// Does as offer_unfinished after an error at the end of an epoch, so that the epoch is not lost. Writes nothing if
  /// weights have changed since note_weights.
  void offer_after_error(LoopState& before, const Stopping& stopping, int64_t epoch);
  /// Notes the weights before the hooks that end the epoch.
  void note_weights() { versions_before_hooks_ = versions_of_weights(fit_.session); }
  /// Forgets the weights of an earlier epoch.
  void forget_weights() { versions_before_hooks_.reset(); }

  /// Writes a checkpoint (see Fit::save) of the state that is offered, else of that which `present` returns. Ends the
  /// training if a rank wishes to stop.
  std::optional<std::filesystem::path> save(SaveRequest request, const std::function<LoopState()>& present,
                                            Stopping& stopping);

  /// See Fit::keep_steps. Throws UserError if there are several ranks.
  void keep_steps();
  bool keeps_steps() const { return keeps_steps_; }
  /// Keeps a state for a checkpoint after an exception. `board` has the records of the state, unless the state has
  /// them.
  void keep(LoopState state, std::optional<MetricBoard> board = std::nullopt);
  /// Call after keep. Gives the kept state the values of metric objects, which no step of its epoch would bring.
  void set_kept_metric_values(const Metrics& values) { kept_->set_metric_values(values); }
  void weights_may_change();
  /// Notes that the training has thrown: save writes the kept state from now on.
  void fail() { has_failed_ = true; }

  /// Keeps the state from before a validation that stops the training: a resumed run does the validation again.
  void set_before_stop(LoopState state) { before_stop_ = std::move(state); }
  /// Returns that state, else `present`.
  LoopState& state_before_stop(LoopState& present) { return before_stop_ ? *before_stop_ : present; }

 private:
  std::optional<std::filesystem::path> save_kept(SaveRequest request);

  const FitContext& fit_;
  const FitHooks& hooks_;
  SavePoint point_ = SavePoint::kStep;
  const LoopState* offered_ = nullptr;             // what save() writes instead of the present state
  std::optional<LoopState> before_stop_;           // a resumed run does again what came after it
  std::optional<KeptStep> kept_;                   // with keep_steps, as soon as there is one
  std::optional<uint64_t> versions_before_hooks_;  // of the weights, before the hooks that end the epoch
  bool keeps_steps_ = false;
  bool has_failed_ = false;
};

}  // namespace cohort
