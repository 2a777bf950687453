#include <algorithm>
#include <set>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <cohort/checkpoint.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/selection.hpp>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/check_fits.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/generators.hpp"
#include "checkpoint/optimizer_state.hpp"
#include "checkpoint/owned_state.hpp"
#include "checkpoint/session_tensors.hpp"
#include "checkpoint/strategy_tensors.hpp"
#include "gather/gathered.hpp"
#include "metrics/epoch_state.hpp"
#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

/// Throws UserError on all ranks if one names another place than rank 0, whose checkpoints all of them read. A place
/// may have several names, for example from different working folders.
void check_same_place(Runtime& runtime, const fs::path& where) {
  const auto places = runtime.all_gather(where.native());
  all_or_none(runtime, [&] {
    const fs::path first = places[0];
    std::error_code ignored;
    const bool is_there = fs::exists(where, ignored) || fs::exists(first, ignored);
    if (where == first || !is_there || fs::equivalent(where, first, ignored)) return;
    throw UserError("'" + shown(where) + "' is not '" + shown(first) +
                    "', from which rank 0 goes on; give all ranks the same checkpoints");
  });
}

/// What rank 0 finds, newest first, as all ranks hear it.
std::vector<fs::path> find_candidates(Runtime& runtime, const fs::path& where, bool may_be_missing) {
  std::vector<std::string> found_by_first;
  all_or_none(runtime, [&] {
    if (!runtime.is_first()) return;
    std::error_code ignored;
    if (is_checkpoint(where)) {
      found_by_first = {where.native()};
      return;
    }
    if (fs::exists(where, ignored) && !fs::is_directory(where, ignored)) {
      throw UserError("'" + shown(where) + "' is a file; name a checkpoint or a folder of checkpoints");
    }
    const auto found = find_checkpoints(where);
    for (const auto& one : found) {
      if (one.problem.empty()) {
        found_by_first.push_back(one.path.native());
      } else {
        runtime.log().warning("a damaged checkpoint is passed over: " + one.problem);
      }
    }
    if (!found_by_first.empty() || (found.empty() && may_be_missing)) return;
    if (!found.empty()) throw UserError("all checkpoints in '" + shown(where) + "' are damaged");
    throw UserError("there is no checkpoint in '" + shown(where) + "'; name a folder that --checkpoint-dir has filled");
  });
  const std::vector<std::string> names = gathered(runtime, found_by_first, "names of checkpoints")[0];
  return {names.begin(), names.end()};
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string number_of_ranks(int ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

/// Returns what other numbers of ranks cannot go on with: there is no mean of it.
std::vector<std::string> tied_to_ranks(const Manifest& manifest) {
  std::vector<std::string> tied = manifest.per_rank;
  std::erase_if(tied, [](const std::string& what) { return what == kWeights || what == kOptimizerState; });
  return tied;
}

void check_world(const Manifest& manifest, const Runtime& runtime, const fs::path& path) {
  const int world = runtime.world_size(), saved = manifest.world_size;
  const auto& strategy = runtime.selection().strategy;
  const std::string own = strategy.name + (strategy.variant.empty() ? "" : ":" + strategy.variant);
  if (own != manifest.strategy && !manifest.per_rank.empty()) {
    throw UserError(shown(path) + " holds " + joined(manifest.per_rank) + " of each rank of strategy '" +
                    manifest.strategy + "', which '" + own +
                    "' cannot go on with; resume with --strategy=" + manifest.strategy);
  }
  if (world == saved) return;
  const std::vector<std::string> tied = tied_to_ranks(manifest);
  if (tied.empty()) return;
  const std::string ranks = number_of_ranks(saved);
  throw UserError(shown(path) + " holds " + joined(tied) + " of each of " + ranks +
                  ", which no other number of ranks can go on with; resume with " + ranks);
}

/// Returns the tensors of one file. Throws DamagedCheckpoint if the file does not match the manifest.
TensorIndex tensors_in(const LoadedCheckpoint& loaded, const std::string& name) {
  const fs::path file = loaded.path / name;
  const FileDigest& wanted = loaded.manifest.files.at(name);
  TensorIndex tensors;
  try {
    // The length is compared first, because a huge file with holes would take hours to read.
    FileDigest digest{host::RegularFile(file).bytes(), ""};
    if (digest.bytes != wanted.bytes) {
      throw UserError(shown(file) + " is not as it was written: its length is " + std::to_string(digest.bytes) +
                      " bytes, and " + std::to_string(wanted.bytes) + " in the manifest");
    }
    digest = digest_of_file(file);
    if (digest != wanted) {
      throw UserError(shown(file) + " is not as it was written: its " + std::to_string(digest.bytes) +
                      " bytes do not have the checksum of the manifest");
    }
    for (auto& [key, tensor] : read_safetensors(file).tensors) {
      if (host::on_one_line(key) != key) {  // messages hold names of tensors
        throw UserError(shown(file) + " holds a control character in the name " + host::in_quotes(key));
      }
      tensors.emplace(key, std::move(tensor));
    }
  } catch (const UserError& error) {
    throw DamagedCheckpoint(error.what());
  }
  return tensors;
}

DamagedCheckpoint not_of_this_rank_alone(const std::string& file, const std::string& what) {
  return DamagedCheckpoint(file + " holds " + what +
                           " of this rank alone, but the manifest says that all ranks have the same");
}

/// Throws DamagedCheckpoint if a rank's file holds weights or state although the manifest says that all ranks
/// share them: this rank alone would continue with other values.
void check_own(const LoadedCheckpoint& loaded, const TensorIndex& own, const torch::nn::Module& module,
               const std::string& file) {
  const auto lists = [&](const char* what) { return std::ranges::count(loaded.manifest.per_rank, what) > 0; };
  std::set<std::string, std::less<>> weights;
  for (auto& [name, parameter] : named_parameters_of(module)) weights.merge(std::set{name, trained_name(name)});
  for (const auto& [name, tensor] : own) {
    const bool is_weight = weights.contains(name) && !lists(kWeights);
    const bool is_state =
        policy_of(name) == StatePolicy::kOptimizer && !name.ends_with(".archive") && !lists(kOptimizerState);
    if (is_weight || is_state) throw not_of_this_rank_alone(file, host::in_quotes(name));
  }
  const host::StrategyState strategy = strategy_state(module, own, loaded.manifest.per_rank);
  const auto shared = names_of(strategy, /*is_shared=*/true);
  if (!shared.empty()) throw not_of_this_rank_alone(file, shared.front());
}

/// Adds what this rank keeps of the state that ranks owned. Throws DamagedCheckpoint for what is there already, or is
/// no such state.
void add_owned_state(const StepDriver& session, LoadedCheckpoint& loaded) {
  for (int rank = 0; rank < loaded.manifest.world_size; ++rank) {
    const std::string file = owned_file(rank);
    if (!loaded.manifest.files.contains(file)) continue;
    TensorIndex owned = tensors_in(loaded, file);
    drop_state_of_others(session, owned);
    for (auto& [name, tensor] : owned) {
      if (policy_of(name) == StatePolicy::kOptimizer && loaded.tensors.emplace(name, std::move(tensor)).second)
        continue;
      throw DamagedCheckpoint(shown(loaded.path / file) + " holds " + host::in_quotes(name) +
                              ", which is no state of an optimizer, or is in another file, too");
    }
  }
}

/// Replaces this rank's state of module and callbacks by the mean over the ranks that saved it. Throws UserError for
/// state that has none.
void average_rank_state(const LoadedCheckpoint& loaded, TensorIndex& own) {
  const int saved = loaded.manifest.world_size;
  for (auto& [name, tensor] : own) {
    if (policy_of(name) == StatePolicy::kTied) {
      throw UserError(shown(loaded.path) + " holds " + host::in_quotes(name) + " of each of " + number_of_ranks(saved) +
                      ", which no other number of ranks can go on with; resume with " + number_of_ranks(saved) +
                      ", or save it by set_mean");
    }
    if (policy_of(name) == StatePolicy::kMean) tensor = at::zeros_like(tensor);
  }
  for (int rank = 0; rank < saved; ++rank) {
    const TensorIndex others = tensors_in(loaded, rank_file(rank));
    for (auto& [name, tensor] : own) {
      if (policy_of(name) != StatePolicy::kMean) continue;
      const at::Tensor* const other = find_tensor(others, name);
      if (!other || other->sizes() != tensor.sizes() || !other->is_floating_point()) {
        throw UserError(shown(loaded.path / rank_file(rank)) + " has no part of the mean over ranks of " +
                        host::in_quotes(name) + "; resume with " + number_of_ranks(saved));
      }
      tensor.add_(*other);
    }
  }
  for (auto& [name, tensor] : own) {
    if (policy_of(name) == StatePolicy::kMean) tensor.div_(saved);
  }
}

/// Adapts what a rank's file holds to another number of ranks: the weights in it are not its own (check_world), and the
/// metrics of the epoch so far are spread over the ranks of now so that each value counts once.
void adapt_to_world(const LoadedCheckpoint& loaded, const Runtime& runtime, TensorIndex& own) {
  std::erase_if(own, [](const auto& item) { return !is_of_the_run(item.first); });
  const auto has = [&](StatePolicy policy) {
    return std::ranges::any_of(own, [&](const auto& entry) { return policy_of(entry.first) == policy; });
  };
  if (has(StatePolicy::kTied) || has(StatePolicy::kMean)) average_rank_state(loaded, own);
  const int saved = loaded.manifest.world_size;
  if (runtime.rank() >= saved) drop_epoch(own);
  for (int rank = runtime.rank() + runtime.world_size(); rank < saved; rank += runtime.world_size()) {
    const std::string file = rank_file(rank);
    add_epoch(own, tensors_in(loaded, file), std::to_string(rank), shown(loaded.path / file));
  }
}

/// Reads the files of this rank. Its own tensors override the shared ones.
LoadedCheckpoint read_files(const StepDriver& session, const fs::path& path, std::string& manifest_text) {
  const Runtime& runtime = session.runtime();
  LoadedCheckpoint loaded;
  loaded.path = path;
  loaded.manifest = read_manifest(path, &manifest_text);
  check_world(loaded.manifest, runtime, path);
  const std::string own_file = rank_file(runtime.rank() % loaded.manifest.world_size);
  TensorIndex own = tensors_in(loaded, own_file);
  if (loaded.manifest.world_size != runtime.world_size()) adapt_to_world(loaded, runtime, own);
  check_own(loaded, own, session.module(), shown(path / own_file));
  loaded.tensors = tensors_in(loaded, kSharedFile);
  drop_state_of_others(session, loaded.tensors);
  add_owned_state(session, loaded);
  for (auto& [name, tensor] : own) loaded.tensors.insert_or_assign(name, std::move(tensor));
  return loaded;
}

LoadedCheckpoint read_one(StepDriver& session, const fs::path& path) {
  Runtime& runtime = session.runtime();
  LoadedCheckpoint loaded;
  std::string manifest_text;
  all_or_none(runtime, [&] { loaded = read_files(session, path, manifest_text); });
  const auto texts = runtime.all_gather(manifest_text);
  if (std::any_of(texts.begin(), texts.end(), [&](const auto& text) { return text != texts[0]; })) {
    throw UserError("ranks see different checkpoints at " + shown(path) +
                    "; put checkpoints on a file system that all nodes share");
  }
  all_or_none(runtime, [&] {
    check_fits(session, loaded);
    check_loop_state({loaded.tensors, shown(path)});
    check_state_of_strategy(session.module(), loaded.tensors, shown(path));
  });
  return loaded;
}

void log_other_world(const Runtime& runtime, const Manifest& manifest) {
  if (!runtime.is_first() || manifest.world_size == runtime.world_size()) return;
  std::string text = "The checkpoint of " + number_of_ranks(manifest.world_size) + " is gone on from by " +
                     number_of_ranks(runtime.world_size());
  if (!manifest.per_rank.empty()) {
    text += ", which begin with the means over ranks of what differed: " + joined(manifest.per_rank);
  }
  const bool is_apart = runtime.options().rank_noise == RankNoise::kApart;
  if (is_apart && manifest.world_size < runtime.world_size())
    text += "; ranks that were added draw random numbers of their own";
  runtime.log().info(text);
}

void copy_into(const NamedTensors& targets, const TensorIndex& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, target] : targets) {
    const at::Tensor* const own = find_tensor(tensors, trained_name(name));
    target.copy_(own ? *own : *find_tensor(tensors, name));
  }
}

}  // namespace

std::optional<LoadedCheckpoint> read_checkpoint(StepDriver& session, const fs::path& where, bool may_be_missing) {
  Runtime& runtime = session.runtime();
  check_same_place(runtime, where);
  const auto candidates = find_candidates(runtime, where, may_be_missing);
  for (size_t i = 0; i < candidates.size(); ++i) {
    try {
      LoadedCheckpoint loaded = read_one(session, candidates[i]);
      log_other_world(runtime, loaded.manifest);
      return loaded;
    } catch (const DamagedCheckpoint& damage) {
      if (i + 1 == candidates.size()) throw;
      if (runtime.is_first()) {
        runtime.log().warning(std::string("a damaged checkpoint is passed over: ") + damage.what());
      }
    }
  }
  return std::nullopt;
}

void apply_checkpoint(const LoadedCheckpoint& checkpoint, StepDriver& session) {
  copy_into(named_weights_of(session), checkpoint.tensors);
  copy_into(named_buffers_of(session.module()), checkpoint.tensors);
  const auto names = parameter_names(session);
  const Optimizers& optimizers = session.optimizers();
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    restore_optimizer(optimizers[phase], names, optimizer_prefix(phase, optimizers.size()),
                      checkpoint.manifest.optimizers[phase], checkpoint.tensors);
  }
  session.optimizers_restored();
  if (checkpoint.manifest.loss_scale) session.set_loss_scale(*checkpoint.manifest.loss_scale);
  set_generator_state(*find_tensor(checkpoint.tensors, kGeneratorName), shown(checkpoint.path));
  set_device_generator_states(session.runtime().devices(), checkpoint.tensors, shown(checkpoint.path));
}

void resume_strategy(const LoadedCheckpoint& checkpoint, StepDriver& session) {
  const Manifest& manifest = checkpoint.manifest;
  host::StrategyState state = strategy_state(session.module(), checkpoint.tensors, manifest.per_rank);
  state.steps = manifest.optimizer_steps;
  state.world_size = manifest.world_size;
  state.versions = manifest.layers;
  session.resume_after(manifest.step, std::move(state));
}

void load(Session& session, const fs::path& checkpoint) {
  StepDriver& driver = driver_of(session);
  const auto loaded = read_checkpoint(driver, checkpoint, /*may_be_missing=*/false);
  apply_checkpoint(*loaded, driver);
  resume_strategy(*loaded, driver);
}

}  // namespace cohort
