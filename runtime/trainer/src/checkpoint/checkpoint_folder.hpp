// A folder with checkpoints as files see it: which there are, how one is added so that a kill at any moment leaves the
// others as they were, and how old ones go.
//
// A new checkpoint is written into a hidden folder beside and renamed when it is complete. One rank at a time changes a
// folder. All functions throw UserError that names the path and the system's reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/folder_lock.hpp"
#include "checkpoint/manifest.hpp"

namespace cohort {

struct FoundCheckpoint {
  std::filesystem::path path;
  uint64_t sequence = 0;
  std::string problem;  ///< why its manifest cannot be read, or empty
};

/// Returns a path as text for messages, on one line.
std::string shown(const std::filesystem::path& path);

/// Returns true for a folder that has a manifest, even a damaged one.
bool is_checkpoint(const std::filesystem::path& path);
/// The checkpoints in a folder, newest first; those whose manifest is damaged before all others. Empty where there is
/// no such folder.
std::vector<FoundCheckpoint> find_checkpoints(const std::filesystem::path& folder);

/// Returns the manifest of a checkpoint, and its text in `text` unless that is null. Throws DamagedCheckpoint if it is
/// damaged, or belongs to another step than the folder's name says; UserError if its format is newer.
Manifest read_manifest(const std::filesystem::path& checkpoint, std::string* text = nullptr);

/// "step-00000120"
std::string checkpoint_name(uint64_t step);
/// Returns the step of such a name; nothing for any other name.
std::optional<uint64_t> step_of_name(std::string_view name);
/// Where the files of a checkpoint are written that will be `checkpoint`.
std::filesystem::path partial_of(const std::filesystem::path& checkpoint);

/// Makes the folder, locks it, and clears away what a killed run has left there. Returns the lock. Throws UserError if
/// the folder cannot be written, another job holds it, or something that is not a checkpoint has the name of one.
std::shared_ptr<FolderLock> open_checkpoint_folder(const std::filesystem::path& folder,
                                                   const LockPatience& patience = {});
/// Makes partial_of(checkpoint), empty.
void begin_checkpoint(const std::filesystem::path& checkpoint);
/// Its files are complete and on the disk: gives it its name. An earlier one of that name stays until then.
void publish_checkpoint(const std::filesystem::path& checkpoint);
/// Deletes partial_of(checkpoint); ignores errors.
void abandon_checkpoint(const std::filesystem::path& checkpoint) noexcept;
/// Deletes a checkpoint so that a kill leaves it whole or leaves no checkpoint.
void remove_checkpoint(const std::filesystem::path& checkpoint);
/// Deletes all but the newest `keep` of those that checkpoint_name has named.
void prune_checkpoints(const std::filesystem::path& folder, int64_t keep);

}  // namespace cohort
