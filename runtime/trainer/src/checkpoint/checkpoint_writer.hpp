// Writes the checkpoints of one training, into one or several folders, each state once.
//
// Tensors and states are collected between two steps; a thread of each rank writes them, beside training. One
// checkpoint at a time: the next one, and the end of training, wait for it.
#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>

#include <cohort/step_driver.hpp>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/folder_lock.hpp"
#include "checkpoint/loop_state.hpp"

namespace cohort {

class CheckpointWriter {
 public:
  explicit CheckpointWriter(StepDriver& session) : session_(session) {}
  /// A checkpoint that is being written is finished if that needs no other rank, and given up if it does.
  ~CheckpointWriter() { stop_.request_stop(); }
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Makes and locks the folder; once for each. Collective. Throws the same UserError on all ranks.
  void open(const std::filesystem::path& folder);
  /// Remembers that this checkpoint is in the folder.
  void note(const std::filesystem::path& folder, const LoadedCheckpoint& loaded);
  /// Returns the name by which this folder was opened first, because a folder is locked once.
  std::filesystem::path opened_as(const std::filesystem::path& folder) const;
  /// Returns the path that the checkpoint of this state will have, which is written unless it was the last one of the
  /// folder. The newest `keep` of the folder stay, or all. `when_written` is called when it is there, on rank 0, maybe
  /// in another thread. Throws, the same on all ranks, if this checkpoint cannot be collected or the one before could
  /// not be written. Collective.
  std::filesystem::path save(const std::filesystem::path& folder, const LoopState& state, std::optional<int64_t> keep,
                             std::function<void()> when_written = {});
  /// Blocks until the last checkpoint is written. Throws the same error on all ranks if it could not be. Collective.
  void finish();
  /// Returns the newest that save has written, or an empty path.
  const std::filesystem::path& newest() const { return newest_; }

 private:
  struct Folder {
    std::shared_ptr<FolderLock> lock;  // on rank 0
    uint64_t steps = 0;
    std::optional<LoopPlace> place;  // of the last checkpoint
    std::filesystem::path last;
  };

  void tell_once(const CheckpointParts& parts, const LoopState& state);

  StepDriver& session_;
  std::map<std::filesystem::path, Folder> folders_;
  std::filesystem::path newest_;
  std::stop_source stop_;
  bool has_told_ = false;                     // of what differs by rank
  std::optional<std::future<void>> writing_;  // the last member: its destructor waits for the thread
};

}  // namespace cohort
