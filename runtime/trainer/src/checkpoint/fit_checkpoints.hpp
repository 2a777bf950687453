// When one training writes checkpoints and what it goes on from: --checkpoint-dir, --resume and their kin.
//
// A program's first fit uses these folders, its n-th the folder fit-n in each of them: so a program of several
// trainings goes on where it was stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include <cohort/session.hpp>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/folder_lock.hpp"
#include "loop/limits.hpp"

namespace cohort {

class FitCheckpoints {
 public:
  /// `fit` counts from 1. Throws UserError for options that contradict each other.
  FitCheckpoints(Runtime& runtime, const LoopLimits& limits, int64_t fit);

  /// Opens the folder and returns the checkpoint to resume from, if there is one. Collective. Throws the same UserError
  /// on all ranks, also if the folder holds another training's checkpoints or another job holds the folder.
  std::optional<LoadedCheckpoint> open(Session& session);
  /// True where a checkpoint belongs after this many steps, within an epoch.
  bool due(uint64_t steps) const;
  /// Counts from 1.
  int64_t fit() const { return fit_; }
  /// Does nothing where no folder is given, or where this is the last one once more. Collective.
  void save(Session& session, const LoopState& loop);
  /// The last one written, or empty.
  const std::filesystem::path& last() const { return last_; }

 private:
  void open_folder();
  void check_folder_is_of(const std::optional<LoadedCheckpoint>& resumed) const;

  Runtime& runtime_;
  int64_t fit_;
  std::filesystem::path folder_;      // empty: none is written
  std::shared_ptr<FolderLock> lock_;  // on rank 0
  std::filesystem::path source_;      // empty: a fresh start
  bool source_may_be_missing_ = false;
  std::optional<int64_t> every_n_steps_;
  uint64_t saved_steps_ = 0;
  std::optional<LoopPlace> saved_place_;
  std::filesystem::path last_;
};

/// Throws UserError where a training that stopped at `saved` in the middle of an epoch cannot go on with the data of
/// `now`: samples would be left out or seen twice. `path` begins the message.
void check_same_data(const LoopPlace& saved, const LoopPlace& now, const std::filesystem::path& path);

}  // namespace cohort
