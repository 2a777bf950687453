// When one training writes checkpoints and what it goes on from: --checkpoint-dir, --resume and their kin.
//
// A program's first fit uses these folders, its n-th the folder fit-n in each of them: so a program of several
// trainings goes on where it was stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <cohort/callback.hpp>
#include <cohort/step_driver.hpp>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "settings/limits.hpp"

namespace cohort {

/// Returns the folder of a program's n-th fit.
std::filesystem::path folder_of_fit(const std::filesystem::path& folder, int64_t fit);
/// Returns where in a folder of checkpoints the best ones are.
std::filesystem::path best_of(const std::filesystem::path& folder);

class FitCheckpoints final : public Callback {
 public:
  /// `fit` counts from 1. Throws UserError for options that contradict each other.
  FitCheckpoints(Runtime& runtime, const LoopLimits& limits, int64_t fit);

  /// Opens the folder and returns the checkpoint to resume from, if there is one. Collective. Throws the same UserError
  /// on all ranks, also if the folder holds another training's checkpoints or another job holds the folder.
  std::optional<LoadedCheckpoint> open(StepDriver& session, CheckpointWriter& writer) const;
  /// Returns whether the checkpoint lies in the folder that this training writes into.
  bool continues(const LoadedCheckpoint& resumed) const;
  /// Empty if none is written.
  const std::filesystem::path& folder() const { return folder_; }

  std::string name() const override { return "checkpoints"; }
  void on_save_point(Fit& fit, SavePoint point) override;

 private:
  std::optional<LoadedCheckpoint> read_source(StepDriver& session) const;
  void check_source(const LoadedCheckpoint& resumed) const;
  void warn_of_restarts() const;
  void check_folder_is_of(const std::optional<LoadedCheckpoint>& resumed) const;

  Runtime& runtime_;
  int64_t fit_;
  std::filesystem::path folder_;  // empty: none is written
  std::filesystem::path source_;  // empty: a fresh start
  bool source_may_be_missing_ = false;
  std::optional<int64_t> every_n_steps_;
};

/// Throws UserError where a training that stopped at `saved` in the middle of an epoch cannot go on with the data of
/// `now`: samples would be left out or seen twice. `path` begins the message.
void check_same_data(const LoopPlace& saved, const LoopPlace& now, const std::filesystem::path& path);

}  // namespace cohort
