// Writes the checkpoints of one training, into one or several folders, each state once.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include <cohort/step_driver.hpp>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/folder_lock.hpp"
#include "checkpoint/loop_state.hpp"

namespace cohort {

class CheckpointWriter {
 public:
  explicit CheckpointWriter(StepDriver& session) : session_(session) {}

  /// Makes and locks the folder; once for each. Collective. Throws the same UserError on all ranks.
  void open(const std::filesystem::path& folder);
  /// Remembers that this checkpoint is in the folder.
  void note(const std::filesystem::path& folder, const LoadedCheckpoint& loaded);
  /// Returns the path of the checkpoint of this state, which is written unless it was the last one of the folder.
  /// The newest `keep` of the folder stay, or all. Collective.
  std::filesystem::path save(const std::filesystem::path& folder, const LoopState& state, std::optional<int64_t> keep);
  /// Returns the newest that save has written, or an empty path.
  const std::filesystem::path& newest() const { return newest_; }

 private:
  struct Folder {
    std::shared_ptr<FolderLock> lock;  // on rank 0
    uint64_t steps = 0;
    std::optional<LoopPlace> place;  // of the last checkpoint
    std::filesystem::path last;
  };

  StepDriver& session_;
  std::map<std::filesystem::path, Folder> folders_;
  std::filesystem::path newest_;
};

}  // namespace cohort
