#include "checkpoint/checkpoint_writer.hpp"

#include <cohort/runtime.hpp>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/checkpoint_folder.hpp"

namespace cohort {

void CheckpointWriter::open(const std::filesystem::path& folder) {
  const auto [found, is_new] = folders_.try_emplace(folder);
  if (!is_new) return;
  Runtime& runtime = session_.runtime();
  all_or_none(runtime, [&, &opened = found->second] {
    if (!runtime.is_first()) return;
    opened.lock = open_checkpoint_folder(folder, patience_of(runtime));
    if (opened.lock->is_held()) return;
    runtime.log().warning("the file system of '" + shown(folder) +
                          "' has no locks: see to it that no other job writes checkpoints there");
  });
}

void CheckpointWriter::note(const std::filesystem::path& folder, const LoadedCheckpoint& loaded) {
  Folder& opened = folders_[folder];
  opened.steps = loaded.manifest.step;
  opened.place = loaded.loop->place;
  opened.last = loaded.path;
}

std::filesystem::path CheckpointWriter::save(const std::filesystem::path& folder, const LoopState& state,
                                             std::optional<int64_t> keep) {
  open(folder);
  Folder& opened = folders_.at(folder);
  if (opened.steps == session_.steps() && opened.place == state.place) return opened.last;
  opened.last = newest_ = save_checkpoint(session_, folder, opened.lock.get(), &state, keep);
  opened.steps = session_.steps();
  opened.place = state.place;
  Runtime& runtime = session_.runtime();
  if (runtime.is_first()) runtime.log().debug("Checkpoint written: " + shown(newest_));
  return newest_;
}

}  // namespace cohort
