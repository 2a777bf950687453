// Why a training stops: this rank's wish, and what all ranks have agreed on.
//
// Callbacks say why to stop, which becomes this rank's wish. The votes of a step carry the fact, and the exchange at
// the end of an epoch the reason.
#pragma once

#include <cstdint>
#include <optional>

#include <cohort/callback.hpp>

#include "checkpoint/manifest.hpp"
#include "loop/fit_context.hpp"

namespace cohort {

class Stopping {
 public:
  explicit Stopping(const FitContext& fit) : fit_(fit) {}

  /// See Fit::stop.
  void ask_to_stop(StopReason reason);
  const StopReason& wish() const { return wish_; }
  const StopReason& agreed() const { return agreed_; }
  /// Returns whether no step follows.
  bool is_over() const { return is_over_; }
  /// Lets no further step follow.
  void end() { is_over_ = true; }
  bool is_at_step_limit() const;

  /// Ends the training if there is a reason, and adopts it if it counts more than the one before.
  void adopt(const StopReason& merged);
  /// Tells all ranks why one of them wants to stop. Collective.
  void agree() { agree(wish_); }
  /// Adopts a signal that has arrived while the last checkpoint was written: nothing may follow this training.
  /// Collective.
  void adopt_late_signal();

  /// Returns why the training is at its end in this epoch; nothing if a later run resumes it.
  std::optional<TrainingEnd> training_end(int64_t epoch) const;
  /// Ends the training if the one that is resumed was at its end, and is still. Collective.
  void heed_end_of_resumed(const std::optional<TrainingEnd>& end, int64_t epoch);

 private:
  void agree(const StopReason& own);
  bool is_at_epoch_limit(int64_t epoch) const;
  StopReason still_ended_by(const TrainingEnd& end) const;

  const FitContext& fit_;
  StopReason wish_;    // this rank's
  StopReason agreed_;  // of all ranks
  bool is_over_ = false;
};

}  // namespace cohort
