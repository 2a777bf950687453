#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/optimizer_state.hpp"
#include "checkpoint/session_tensors.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxManifestFileBytes = 100'000'000;
constexpr size_t kMaxDifferencesShown = 10;

/// What rank 0 finds, newest first, as all ranks hear it.
std::vector<fs::path> find_candidates(Runtime& runtime, const fs::path& where, bool may_be_missing) {
  std::string list;
  all_or_none(runtime, [&] {
    if (!runtime.is_first()) return;
    std::error_code ignored;
    if (is_checkpoint(where)) {
      list = where.string() + '\n';
      return;
    }
    if (fs::exists(where, ignored) && !fs::is_directory(where, ignored)) {
      throw UserError("'" + where.string() + "' is a file; name a checkpoint or a folder of checkpoints");
    }
    const auto found = find_checkpoints(where);
    for (const auto& one : found) {
      if (one.problem.empty()) {
        list += one.path.string() + '\n';
      } else {
        runtime.log().warning("a damaged checkpoint is passed over: " + one.problem);
      }
    }
    if (!list.empty() || (found.empty() && may_be_missing)) return;
    if (!found.empty()) throw UserError("all checkpoints in '" + where.string() + "' are damaged");
    throw UserError("there is no checkpoint in '" + where.string() +
                    "'; name a folder that --checkpoint-dir has filled");
  });
  std::string names = runtime.all_gather(list)[0];
  std::vector<fs::path> candidates;
  for (size_t end = 0; (end = names.find('\n')) != std::string::npos; names.erase(0, end + 1)) {
    candidates.emplace_back(names.substr(0, end));
  }
  return candidates;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void check_world(const Manifest& manifest, const Runtime& runtime, const fs::path& path) {
  const int world = runtime.world_size(), saved = manifest.world_size;
  const auto& strategy = runtime.selection().strategy;
  const std::string own = strategy.name + (strategy.variant.empty() ? "" : ":" + strategy.variant);
  if (own != manifest.strategy && !manifest.per_rank.empty()) {
    throw UserError(path.string() + " holds " + joined(manifest.per_rank) + " of each rank of strategy '" +
                    manifest.strategy + "', which '" + own +
                    "' cannot go on with; resume with --strategy=" + manifest.strategy);
  }
  if (world == saved) return;
  const std::string ranks = std::to_string(saved) + (saved == 1 ? " rank" : " ranks");
  if (!manifest.per_rank.empty()) {
    throw UserError(path.string() + " holds " + joined(manifest.per_rank) + " of each of " + ranks +
                    ", which no other number of ranks can go on with; resume with " + ranks);
  }
  if (manifest.loop && manifest.loop->batches > 0) {
    throw UserError(path.string() + " was taken in the middle of epoch " + std::to_string(manifest.loop->epoch) +
                    " of " + ranks + "; with another number of ranks samples would be left out or seen twice: resume " +
                    "with " + ranks + ", or from a checkpoint at the end of an epoch");
  }
}

void add_file(LoadedCheckpoint& loaded, const std::string& name) {
  const fs::path file = loaded.path / name;
  const FileDigest& wanted = loaded.manifest.files.at(name);
  FileDigest digest;
  try {
    digest = digest_of_file(file);
  } catch (const UserError& error) {
    throw DamagedCheckpoint(error.what());
  }
  if (digest != wanted) {
    throw DamagedCheckpoint(file.string() + " is not as it was written: its " + std::to_string(digest.bytes) +
                            " bytes do not have the checksum that the manifest gives for " +
                            std::to_string(wanted.bytes));
  }
  for (auto& [key, tensor] : read_safetensors(file).tensors) loaded.tensors.insert_or_assign(key, std::move(tensor));
}

/// This rank's files. The shared ones come first: what is the rank's own is put over them.
LoadedCheckpoint read_files(const Runtime& runtime, const fs::path& path, std::string& manifest_text) {
  LoadedCheckpoint loaded;
  loaded.path = path;
  const std::string file = (path / kManifestFile).string();
  try {
    manifest_text = read_text_file(file, kMaxManifestFileBytes);
  } catch (const UserError& error) {
    throw DamagedCheckpoint(error.what());
  }
  loaded.manifest = parse_manifest(manifest_text, file);
  check_world(loaded.manifest, runtime, path);
  // Where the number of ranks has changed (check_world) a rank's weights are not looked for in its file.
  add_file(loaded, rank_file(runtime.rank() % loaded.manifest.world_size));
  if (loaded.manifest.world_size != runtime.world_size()) {
    std::erase_if(loaded.tensors, [](const auto& item) { return !item.first.starts_with("cohort."); });
  }
  TensorIndex own;
  own.swap(loaded.tensors);
  add_file(loaded, kSharedFile);
  for (auto& [name, tensor] : own) loaded.tensors.insert_or_assign(name, std::move(tensor));
  return loaded;
}

void check_model(const torch::nn::Module& module, const LoadedCheckpoint& loaded) {
  NamedTensors model = named_parameters_of(module);
  for (auto& buffer : named_buffers_of(module)) model.push_back(std::move(buffer));
  std::vector<std::string> differences;
  TensorIndex known;
  for (const auto& [name, tensor] : model) {
    known.emplace(name, tensor);
    const at::Tensor* const saved = find_tensor(loaded.tensors, name);
    if (!saved) {
      differences.push_back(name + ": " + shape_text(tensor) + " in the model, not in the checkpoint");
    } else if (saved->sizes() != tensor.sizes()) {
      differences.push_back(name + ": " + shape_text(tensor) + " in the model, " + shape_text(*saved) +
                            " in the checkpoint");
    } else if (saved->scalar_type() != tensor.scalar_type()) {
      differences.push_back(name + ": " + c10::toString(tensor.scalar_type()) + " in the model, " +
                            c10::toString(saved->scalar_type()) + " in the checkpoint");
    }
  }
  for (const auto& [name, tensor] : loaded.tensors) {
    if (known.contains(name) || name.starts_with("optimizer.") || name.starts_with("cohort.")) continue;
    differences.push_back(name + ": not in the model, " + shape_text(tensor) + " in the checkpoint");
  }
  if (differences.empty()) return;
  std::string text =
      loaded.path.string() + " was made by another model; resume with the model that it was trained with";
  for (size_t i = 0; i < std::min(differences.size(), kMaxDifferencesShown); ++i) text += "\n  " + differences[i];
  if (differences.size() > kMaxDifferencesShown) {
    text += "\n  and " + std::to_string(differences.size() - kMaxDifferencesShown) + " more";
  }
  throw UserError(text);
}

void check_fits(Session& session, const LoadedCheckpoint& loaded) {
  check_model(session.module(), loaded);
  const auto names = parameter_names(session.module());
  const Optimizers& optimizers = session.optimizers();
  if (loaded.manifest.optimizers.size() != optimizers.size()) {
    throw UserError(loaded.path.string() + " has " + std::to_string(loaded.manifest.optimizers.size()) +
                    " optimizers, the program " + std::to_string(optimizers.size()));
  }
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    check_optimizer(optimizers[phase], names, optimizer_prefix(phase, optimizers.size()),
                    loaded.manifest.optimizers[phase], loaded.tensors, loaded.path.string());
  }
}

LoadedCheckpoint read_one(Session& session, const fs::path& path) {
  Runtime& runtime = session.runtime();
  LoadedCheckpoint loaded;
  std::string manifest_text;
  all_or_none(runtime, [&] { loaded = read_files(runtime, path, manifest_text); });
  const auto texts = runtime.all_gather(manifest_text);
  if (std::any_of(texts.begin(), texts.end(), [&](const auto& text) { return text != texts[0]; })) {
    throw UserError("ranks see different checkpoints at " + path.string() +
                    "; put checkpoints on a file system that all nodes share");
  }
  all_or_none(runtime, [&] {
    check_fits(session, loaded);
    const LoopPlace nowhere;
    const LoopState state = read_loop_state(loaded.manifest.loop.value_or(nowhere), loaded.tensors, path.string());
    if (loaded.manifest.loop) loaded.loop = state;
  });
  return loaded;
}

void copy_into(const NamedTensors& targets, const TensorIndex& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, target] : targets) target.copy_(*find_tensor(tensors, name));
}

}  // namespace

std::optional<LoadedCheckpoint> read_checkpoint(Session& session, const fs::path& where, bool may_be_missing) {
  Runtime& runtime = session.runtime();
  const auto candidates = find_candidates(runtime, where, may_be_missing);
  for (size_t i = 0; i < candidates.size(); ++i) {
    try {
      return read_one(session, candidates[i]);
    } catch (const DamagedCheckpoint& damage) {
      if (i + 1 == candidates.size()) throw;
      if (runtime.is_first()) {
        runtime.log().warning(std::string("a damaged checkpoint is passed over: ") + damage.what());
      }
    }
  }
  return std::nullopt;
}

void apply_checkpoint(const LoadedCheckpoint& checkpoint, Session& session) {
  copy_into(named_parameters_of(session.module()), checkpoint.tensors);
  copy_into(named_buffers_of(session.module()), checkpoint.tensors);
  const auto names = parameter_names(session.module());
  const Optimizers& optimizers = session.optimizers();
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    restore_optimizer(optimizers[phase], names, optimizer_prefix(phase, optimizers.size()),
                      checkpoint.manifest.optimizers[phase], checkpoint.tensors);
  }
  session.optimizers_restored();
  set_generator_state(*find_tensor(checkpoint.tensors, kGeneratorName), checkpoint.path.string());
}

void resume_strategy(const LoadedCheckpoint& checkpoint, Session& session) {
  host::StrategyState state = strategy_state(session.module(), checkpoint.tensors);
  state.steps = checkpoint.manifest.optimizer_steps;
  session.resume_after(checkpoint.manifest.step, std::move(state));
}

void Session::load(const fs::path& checkpoint) {
  const auto loaded = read_checkpoint(*this, checkpoint, /*may_be_missing=*/false);
  apply_checkpoint(*loaded, *this);
  resume_strategy(*loaded, *this);
}

}  // namespace cohort
