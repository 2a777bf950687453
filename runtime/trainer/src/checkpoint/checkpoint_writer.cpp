#include "checkpoint/checkpoint_writer.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

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

std::filesystem::path CheckpointWriter::opened_as(const std::filesystem::path& folder) const {
  for (const auto& [name, opened] : folders_) {
    std::error_code ignored;
    if (std::filesystem::equivalent(name, folder, ignored)) return name;
  }
  return folder;
}

void CheckpointWriter::note(const std::filesystem::path& folder, const LoadedCheckpoint& loaded) {
  Folder& opened = folders_[folder];
  opened.steps = loaded.manifest.step;
  opened.place = loaded.manifest.loop;
  opened.last = loaded.path;
}

std::filesystem::path CheckpointWriter::save(const std::filesystem::path& folder, const LoopState& state,
                                             std::optional<int64_t> keep, std::function<void()> when_written) {
  finish();
  open(folder);
  Runtime& runtime = session_.runtime();
  const auto tell = [&runtime, call = std::move(when_written)] {
    if (runtime.is_first() && call) call();
  };
  Folder& opened = folders_.at(folder);
  if (opened.steps == session_.steps() && opened.place == state.place) {
    all_or_none(runtime, tell);
    return opened.last;
  }
  auto parts =
      std::make_shared<CheckpointParts>(collect_checkpoint(session_, folder, opened.lock.get(), &state, Copies::kYes));
  tell_once(*parts, state);
  opened.last = newest_ = parts->checkpoint();
  opened.steps = session_.steps();
  opened.place = state.place;
  writing_ = std::async(std::launch::async, [parts, keep, tell, &runtime, stopped = stop_.get_token()] {
    if (!parts->write(keep, stopped)) return;
    if (runtime.is_first()) runtime.log().debug("Checkpoint written: " + shown(parts->checkpoint()));
    tell();
  });
  return newest_;
}

void CheckpointWriter::tell_once(const CheckpointParts& parts, const LoopState& state) {
  if (has_told_ || !session_.runtime().is_first()) return;
  const auto has = [&](StatePolicy policy) {
    return std::ranges::any_of(state.entries, [&](const auto& entry) { return policy_of(entry.first) == policy; });
  };
  const bool keeps_ranks = has(StatePolicy::kTied) || has(StatePolicy::kMean);
  const bool loses_state = parts.module_differs && !keeps_ranks;
  const bool averages = has(StatePolicy::kValidated) && std::ranges::count(parts.manifest.per_rank, kWeights) > 0;
  if (loses_state) {
    session_.runtime().log().warning(
        "save_state of the module gives other values on some ranks than on rank 0, whose values all ranks resume with; "
        "save what each rank has of its own in save_rank_state, or in a buffer");
  }
  if (averages) {
    session_.runtime().log().info(
        "Each rank validates averaged weights of its own; the weights in checkpoints are their mean over the ranks, "
        "which was not validated itself");
  }
  has_told_ = loses_state || averages;
}

void CheckpointWriter::finish() {
  if (!writing_) return;
  auto writing = std::move(*std::exchange(writing_, std::nullopt));
  all_or_none(session_.runtime(), [&] { writing.get(); });
}

}  // namespace cohort
