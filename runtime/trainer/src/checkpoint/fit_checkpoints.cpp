#include "checkpoint/fit_checkpoints.hpp"

#include <cohort/host/error.hpp>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/checkpoint_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNewest = "auto";

std::string place_text(const LoopPlace& place) {
  return "epoch " + std::to_string(place.epoch) + ", batch " + std::to_string(place.batches);
}

/// Returns whether the checkpoint, or a link to it, lies in the folder.
bool is_in(const fs::path& folder, const fs::path& checkpoint) {
  std::error_code ignored;
  const fs::path named = (checkpoint / ".").lexically_normal().parent_path().parent_path();
  return fs::equivalent(named, folder, ignored) ||
         fs::equivalent(fs::canonical(checkpoint, ignored).parent_path(), folder, ignored);
}

}  // namespace

fs::path best_of(const fs::path& folder) {
  return folder / "best";
}

fs::path folder_of_fit(const fs::path& folder, int64_t fit) {
  return folder.empty() || fit == 1 ? folder : folder / ("fit-" + std::to_string(fit));
}

FitCheckpoints::FitCheckpoints(Runtime& runtime, const LoopLimits& limits, int64_t fit)
    : runtime_(runtime), fit_(fit), every_n_steps_(runtime.options().checkpoint_every_n_steps) {
  const Options& options = runtime.options();
  // An option that only the program's code has set counts if the command line names a folder.
  const auto is_default = [&](const char* flag) { return options.origin(flag) == Origin::kCode; };
  if (every_n_steps_ && options.checkpoint_dir.empty() && !is_default("checkpoint-every-n-steps")) {
    throw UserError("--checkpoint-every-n-steps needs a folder: give --checkpoint-dir=DIR too");
  }
  if (options.resume == kNewest) {
    if (options.checkpoint_dir.empty() && !is_default("resume")) {
      throw UserError("--resume=auto goes on from --checkpoint-dir, which is not given; name a folder in one of them");
    }
    source_ = folder_of_fit(options.checkpoint_dir, fit);
    source_may_be_missing_ = !source_.empty();
  } else if (!options.resume.empty()) {
    // A later fit begins afresh where the run that is gone on from had not come to it.
    source_ = folder_of_fit(options.resume, fit);
    source_may_be_missing_ = fit > 1;
  }
  warn_of_restarts();
  if (limits.files) folder_ = folder_of_fit(options.checkpoint_dir, fit);
  if (!limits.files && !options.checkpoint_dir.empty() && runtime.is_first()) {
    runtime.log().warning("no checkpoints are written: --fast-dev-run and --barebones write no files");
  }
}

void FitCheckpoints::warn_of_restarts() const {
  const host::Topology& topology = runtime_.topology();
  if (topology.max_restarts == 0 || source_may_be_missing_ || fit_ > 1 || !runtime_.is_first()) return;
  runtime_.log().warning(std::string(to_string(topology.launcher)) +
                         " starts failed ranks again, but they would not go on from the newest checkpoint; give "
                         "--checkpoint-dir=DIR --resume=auto");
}

std::optional<LoadedCheckpoint> FitCheckpoints::open(StepDriver& session, CheckpointWriter& writer) const {
  // The folder is locked before it is read, because another job may still be writing there.
  if (!folder_.empty()) writer.open(folder_);
  if (!folder_.empty() && runtime_.options().monitor) writer.open(best_of(folder_));
  auto resumed = source_.empty() ? std::nullopt : read_source(session);
  if (!folder_.empty()) {
    all_or_none(runtime_, [&] {
      if (runtime_.is_first()) check_folder_is_of(resumed);
    });
    if (resumed) writer.note(folder_, *resumed);
  }
  return resumed;
}

std::optional<LoadedCheckpoint> FitCheckpoints::read_source(StepDriver& session) const {
  auto resumed = read_checkpoint(session, source_, source_may_be_missing_);
  // Of the first checkpoints of a training the best one is written before the other.
  if (!resumed && runtime_.options().monitor) {
    resumed = read_checkpoint(session, best_of(source_), /*may_be_missing=*/true);
  }
  if (resumed) check_source(*resumed);
  if (runtime_.is_first()) {
    runtime_.log().info(resumed
                            ? "Going on from " + shown(resumed->path) + ": step " +
                                  std::to_string(resumed->manifest.step) + ", " + place_text(*resumed->manifest.loop)
                            : "Nothing to go on from in " + shown(source_) + ": training begins");
  }
  return resumed;
}

void FitCheckpoints::check_source(const LoadedCheckpoint& resumed) const {
  if (!resumed.manifest.loop) {
    throw UserError(shown(resumed.path) +
                    " was written by cohort::save, which knows no epochs; go on from it with cohort::load");
  }
  if (resumed.manifest.loop->fit == fit_) return;
  throw UserError(shown(resumed.path) + " belongs to training " + std::to_string(resumed.manifest.loop->fit) +
                  " of the program, this is training " + std::to_string(fit_) +
                  "; give --resume the folder of the whole run");
}

bool FitCheckpoints::continues(const LoadedCheckpoint& resumed) const {
  return !folder_.empty() && (is_in(folder_, resumed.path) || is_in(best_of(folder_), resumed.path));
}

// A checkpoint of the folder stands for all of them; one of the best for the best alone, because newer ones may be
// beside them.
void FitCheckpoints::check_folder_is_of(const std::optional<LoadedCheckpoint>& resumed) const {
  const fs::path best = best_of(folder_);
  for (const fs::path& folder : {folder_, best}) {
    const bool same = resumed && (is_in(folder_, resumed->path) || is_in(folder, resumed->path));
    std::error_code ignored;
    if (same || !fs::is_directory(folder, ignored) || find_checkpoints(folder).empty()) continue;
    throw UserError("--checkpoint-dir: '" + shown(folder) +
                    "' holds checkpoints of another training; go on from them with --resume=auto, or name another "
                    "folder");
  }
}

void FitCheckpoints::on_save_point(Fit& fit, SavePoint point) {
  if (folder_.empty()) return;
  const bool is_due = every_n_steps_ && fit.step() % static_cast<uint64_t>(*every_n_steps_) == 0;
  if (is_due || point != SavePoint::kStep) fit.save(folder_, runtime_.options().keep_checkpoints);
}

void check_same_data(const LoopPlace& saved, const LoopPlace& now, const fs::path& path) {
  if (saved.batches == 0) return;
  std::string differences;
  const auto compare = [&](const char* what, auto was, auto is) {
    if (was != is)
      differences += std::string("\n  ") + what + ": " + std::to_string(was) + ", now " + std::to_string(is);
  };
  compare("batch size", saved.batch_size, now.batch_size);
  compare("training samples", saved.samples, now.samples);
  compare("--seed", saved.seed, now.seed);
  compare("shuffled", saved.shuffle, now.shuffle);
  if (differences.empty()) return;
  throw UserError(shown(path) + " was taken in the middle of an epoch (" + place_text(saved) +
                  "), and samples would be left out or seen twice; give the same data and options:" + differences);
}

}  // namespace cohort
