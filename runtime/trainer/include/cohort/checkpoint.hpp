// Checkpoints of a loop of the user's own; the Trainer writes and reads its own.
//
// Between steps. Collective: all ranks see the same folder.
#pragma once

#include <filesystem>

#include <cohort/session.hpp>

namespace cohort {

/// Writes a checkpoint into the folder, beside earlier ones of which the newest (--keep-checkpoints) stay. Throws the
/// same error on all ranks: UserError if it cannot be written, TrainingFailed if the ranks' weights differ.
void save(Session& session, const std::filesystem::path& folder);

/// Goes on from this checkpoint, or from the newest whole one of a folder. Throws the same UserError on all ranks if it
/// does not fit the session, which is unchanged then.
void load(Session& session, const std::filesystem::path& checkpoint);

}  // namespace cohort
