// A checkpoint on its way to the disk: what one rank writes of it, without communication.
//
// Each rank writes its files into the partial folder, which all ranks see, and then, but for rank 0, a mark with their
// digests. Rank 0 waits for all marks, adds the manifest and publishes the folder. That may happen in a thread beside
// training.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <cohort/runtime.hpp>
#include <cohort/safetensors.hpp>

#include "checkpoint/manifest.hpp"

namespace cohort {

class BegunCheckpoint;

class CheckpointParts {
 public:
  CheckpointParts(std::filesystem::path checkpoint, const Runtime& runtime);
  CheckpointParts(CheckpointParts&&) noexcept;
  ~CheckpointParts();

  NamedTensors own;                    ///< of this rank, in its file
  NamedTensors owned;                  ///< state of the optimizers that this rank alone keeps
  NamedTensors shared;                 ///< rank 0's file
  std::vector<std::string> own_state;  ///< what layers of the strategy keep for this rank, in words
  Manifest manifest;                   ///< rank 0's, without the files
  bool module_differs = false;         ///< state of the module that rank 0's stands for

  /// Makes the partial folder, on rank 0; it is deleted with this object unless it was published.
  void begin();
  /// Throws UserError unless this rank sees the partial folder, which rank 0 has made.
  void check_folder() const;
  /// Throws UserError for a tensor whose name no reader of checkpoints takes.
  void check_names() const;
  /// Copies all tensors, so that training can change them while they are written.
  void copy_tensors();
  /// Writes this rank's part; once. On rank 0 returns whether the checkpoint is there: then all but the newest `keep`
  /// of its folder are deleted. It is not if another rank could not write, or if `stopped` says not to wait for the
  /// others. Throws UserError if this rank cannot write.
  bool write(std::optional<int64_t> keep, const std::stop_token& stopped = {});

  const std::filesystem::path& checkpoint() const { return checkpoint_; }

 private:
  struct WrittenFiles;
  WrittenFiles write_files();
  void write_and_mark();
  std::optional<WrittenFiles> with_others(WrittenFiles all, const std::stop_token& stopped) const;
  std::filesystem::path mark_of(int rank) const;

  std::filesystem::path checkpoint_, partial_;
  int rank_, world_size_;
  std::chrono::nanoseconds timeout_;  // for the other ranks' parts
  std::unique_ptr<BegunCheckpoint> begun_;
};

}  // namespace cohort
