// Checkpoints of a session: written and read by all ranks together.
//
//   DIR/step-00000120/manifest.json        what it is, and checksums of the other files
//                     shared.safetensors   weights, buffers and optimizer: all ranks' (or their mean)
//                     rank-N.safetensors   what is rank N's own: random numbers, metrics, strategy, weights that differ
//                     optimizer-N.safetensors  state of the optimizers that rank N alone kept
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include <cohort/step_driver.hpp>

#include "checkpoint/checkpoint_parts.hpp"
#include "checkpoint/folder_lock.hpp"
#include "checkpoint/loop_state.hpp"
#include "checkpoint/manifest.hpp"
#include "state/tensor_index.hpp"

namespace cohort {

/// Returns how long rank 0 waits for the lock of a folder while the other ranks wait for it: at most half of --timeout.
LockPatience patience_of(Runtime& runtime);

/// Returns the settings of all optimizers, as they are now.
std::vector<OptimizerSettings> optimizer_settings(const StepDriver& session);

/// Whether a checkpoint gets tensors of its own, or is written before training changes those that it shows.
enum class Copies { kNo, kYes };

/// Returns what the checkpoint step-N in the folder is made of, for write(). `lock` is that of the folder
/// (open_checkpoint_folder) on rank 0, else null. `loop` is the Trainer's, null elsewhere. Does not change the
/// training. Collective. Throws the same error on all ranks: UserError if the folder cannot be made, TrainingFailed if
/// the ranks' weights differ. Earlier checkpoints stay then.
CheckpointParts collect_checkpoint(StepDriver& session, const std::filesystem::path& folder, FolderLock* lock,
                                   const LoopState* loop, Copies copies);

struct LoadedCheckpoint {
  std::filesystem::path path;
  Manifest manifest;
  TensorIndex tensors;  ///< of this rank: those of the model, and the entries of its state

  StateReader state() const { return {tensors, path.string()}; }
};

/// Reads the checkpoint `where`, or the newest whole one in the folder `where` (damaged ones are passed over with a
/// warning), and checks that it fits the session. Nothing where `may_be_missing` and there is no checkpoint.
/// Collective. Throws the same UserError on all ranks; the session is unchanged then.
std::optional<LoadedCheckpoint> read_checkpoint(StepDriver& session, const std::filesystem::path& where,
                                                bool may_be_missing);

/// Weights, buffers, optimizer and random numbers become the checkpoint's. May be repeated.
void apply_checkpoint(const LoadedCheckpoint& checkpoint, StepDriver& session);
/// The strategy goes on with what it kept, and steps are counted on. Once, before the first step. Collective.
void resume_strategy(const LoadedCheckpoint& checkpoint, StepDriver& session);

}  // namespace cohort
