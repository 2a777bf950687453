#include <algorithm>
#include <chrono>
#include <iterator>

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/version.h>

#include <cohort/checkpoint.hpp>
#include <cohort/host/selection.hpp>
#include <cohort/module.hpp>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/generators.hpp"
#include "checkpoint/optimizer_state.hpp"
#include "checkpoint/owned_state.hpp"
#include "checkpoint/session_tensors.hpp"
#include "checkpoint/strategy_tensors.hpp"
#include "weights/named_tensors.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

/// Buffers of this rank as training left them: a pause gives every rank those of rank 0.
class KeptBuffers {
 public:
  explicit KeptBuffers(const torch::nn::Module& module) : live_(named_buffers_of(module)) {
    for (const auto& [name, buffer] : live_) kept_.emplace_back(name, buffer.detach().clone());
  }
  const NamedTensors& tensors() const { return kept_; }
  void put_back() {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < live_.size(); ++i) live_[i].second.copy_(kept_[i].second);
  }

 private:
  NamedTensors live_, kept_;
};

/// Returns the manifest without what is known when the files are written: their digests, and its place in the sequence.
Manifest describe(StepDriver& session, const LoopState* loop, const TensorsByPlace& tensors,
                  const host::StrategyState& strategy_state) {
  Runtime& runtime = session.runtime();
  const auto& strategy = runtime.selection().strategy;
  Manifest manifest;
  manifest.cohort_version = COHORT_VERSION;
  manifest.torch_version = TORCH_VERSION;
  manifest.step = session.steps();
  const std::vector<uint64_t>& steps = strategy_state.steps;
  if (std::ranges::count(steps, session.steps()) != std::ssize(steps)) manifest.optimizer_steps = steps;
  manifest.world_size = runtime.world_size();
  manifest.strategy = strategy.name + (strategy.variant.empty() ? "" : ":" + strategy.variant);
  if (tensors.parameters_differ) manifest.per_rank.emplace_back(kWeights);
  if (tensors.optimizer_differs) manifest.per_rank.emplace_back(kOptimizerState);
  if (tensors.optimizer_is_tied) manifest.per_rank.emplace_back("optimizer state without a mean");
  manifest.layers = strategy_state.versions;
  if (loop) manifest.loop = loop->place;
  if (loop) manifest.end = loop->end;
  manifest.precision = to_string(runtime.options().precision);
  manifest.loss_scale = session.loss_scale();
  if (const auto* const module = dynamic_cast<const Module*>(&session.module())) {
    manifest.hyperparameters = module->hyperparameters();
  }
  manifest.optimizers = loop ? loop->optimizers : optimizer_settings(session);
  return manifest;
}

SessionTensors tensors_of(StepDriver& session, const NamedTensors& buffers) {
  SessionTensors tensors{named_weights_of(session), buffers, {}};
  const auto names = parameter_names(session);
  const Optimizers& optimizers = session.optimizers();
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    for (auto& item : optimizer_tensors(optimizers[phase], names, optimizer_prefix(phase, optimizers.size()))) {
      tensors.optimizer.push_back(std::move(item));
    }
  }
  return tensors;
}

/// The entries of a loop's state, by their place in a checkpoint.
struct EntriesByPlace {
  NamedTensors own, shared;
  NamedTensors compared;   ///< among ranks; shared has them as well
  NamedTensors validated;  ///< by the names of weights
};

/// Returns the entries of `loop` by place. For null, a loop of the program's own, these are the generators.
EntriesByPlace entries_by_place(Runtime& runtime, const LoopState* loop) {
  EntriesByPlace places;
  if (!loop) {
    save_generators(StateWriter(places.own), runtime.devices());
    return places;
  }
  for (const auto& entry : loop->entries) {
    const StatePolicy policy = policy_of(entry.first);
    const bool is_compared = policy == StatePolicy::kCompared;
    if (is_compared) places.compared.push_back(entry);
    if (policy == StatePolicy::kValidated) {
      places.validated.emplace_back(entry.first.substr(kValidatedSection.size() + 1), entry.second);
    } else {
      (is_compared || policy == StatePolicy::kShared ? places.shared : places.own).push_back(entry);
    }
  }
  return places;
}

}  // namespace

std::vector<OptimizerSettings> optimizer_settings(const StepDriver& session) {
  std::vector<OptimizerSettings> settings;
  const auto names = parameter_names(session);
  for (const auto& optimizer : session.optimizers()) settings.push_back(optimizer_settings(*optimizer, names));
  return settings;
}

LockPatience patience_of(Runtime& runtime) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::minutes(2);
  return {std::min(kLongest, runtime.options().timeout / 2),
          [&log = runtime.log()](const std::string& line) { log.info(line); }};
}

CheckpointParts collect_checkpoint(StepDriver& session, const fs::path& folder, FolderLock* lock, const LoopState* loop,
                                   Copies copies) {
  session.check_equal_weights();  // before anything is written, so that earlier checkpoints stay
  Runtime& runtime = session.runtime();
  CheckpointParts parts(folder / checkpoint_name(session.steps()), runtime);
  SessionTensors tensors;
  KeptBuffers buffers(session.module());
  all_or_none(runtime, [&] {
    tensors = tensors_of(session, buffers.tensors());
    parts.owned = take_owned(session, tensors.optimizer);
    if (lock) lock->keep();
    parts.begin();
  });

  const host::StrategyState strategy = session.pause_for_checkpoint();
  StrategyTensors of_strategy = strategy_tensors(session.module(), strategy);
  tensors.strategy = std::move(of_strategy.shared);
  EntriesByPlace entries = entries_by_place(runtime, loop);
  show_validated(tensors, entries.validated);
  tensors.module = std::move(entries.compared);
  TensorsByPlace divided = divide_by_rank(session, tensors);
  if (runtime.is_first()) parts.manifest = describe(session, loop, divided, strategy);
  parts.own = std::move(divided.own);
  const auto append = [&](NamedTensors more) { std::move(more.begin(), more.end(), std::back_inserter(parts.own)); };
  append(std::move(of_strategy.own));
  append(std::move(entries.own));
  if (runtime.is_first()) parts.shared = std::move(divided.shared);
  if (runtime.is_first()) std::ranges::move(entries.shared, std::back_inserter(parts.shared));
  parts.module_differs = divided.module_differs;
  parts.own_state = names_of(strategy, /*is_shared=*/false);
  all_or_none(runtime, [&] {
    parts.check_folder();
    parts.check_names();
    if (copies == Copies::kYes) parts.copy_tensors();
  });
  buffers.put_back();
  return parts;
}

void save(Session& session, const fs::path& folder) {
  Runtime& runtime = session.runtime();
  std::shared_ptr<FolderLock> lock;
  all_or_none(runtime, [&] {
    if (runtime.is_first()) lock = open_checkpoint_folder(folder, patience_of(runtime));
  });
  CheckpointParts parts = collect_checkpoint(driver_of(session), folder, lock.get(), nullptr, Copies::kNo);
  all_or_none(runtime, [&] { parts.write(runtime.options().keep_checkpoints); });
}

}  // namespace cohort
