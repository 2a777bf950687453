// A folder with checkpoints as files see it: which there are, how one is added so that a kill at any moment leaves the
// others as they were, and how old ones go.
//
// A new checkpoint is written into a hidden folder beside and renamed when it is complete. One rank at a time changes a
// folder. All functions throw UserError that names the path and the system's reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cohort {

struct FoundCheckpoint {
  std::filesystem::path path;
  uint64_t sequence = 0;
  std::string problem;  ///< why its manifest cannot be read, or empty
};

/// True for a folder with a manifest.
bool is_checkpoint(const std::filesystem::path& path);
/// The checkpoints in a folder, newest first; those whose manifest is damaged before all others. Empty where there is
/// no such folder.
std::vector<FoundCheckpoint> find_checkpoints(const std::filesystem::path& folder);

/// "step-00000120"
std::string checkpoint_name(uint64_t step);
/// Where the files of a checkpoint are written that will be `checkpoint`.
std::filesystem::path partial_of(const std::filesystem::path& checkpoint);

/// Makes the folder, sees that it can be written, and clears away what a killed run has left there.
void open_checkpoint_folder(const std::filesystem::path& folder);
/// Makes partial_of(checkpoint), empty.
void begin_checkpoint(const std::filesystem::path& checkpoint);
/// Its files are complete and on the disk: gives it its name. An earlier one of that name stays until then.
void publish_checkpoint(const std::filesystem::path& checkpoint);
/// Deletes all but the newest `keep` of those that checkpoint_name has named.
void prune_checkpoints(const std::filesystem::path& folder, int64_t keep);

}  // namespace cohort
