#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/version.h>

#include <cohort/checkpoint.hpp>
#include <cohort/host/files.hpp>
#include <cohort/host/machine.hpp>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/generators.hpp"
#include "checkpoint/optimizer_state.hpp"
#include "checkpoint/owned_state.hpp"
#include "checkpoint/session_tensors.hpp"
#include "checkpoint/strategy_tensors.hpp"

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

/// What one rank has written, as it tells rank 0.
struct WrittenFiles {
  std::map<std::string, FileDigest> files;
  std::set<std::string> own_state;  ///< what layers of the strategy keep for each rank, in words
};

std::string text_of(const WrittenFiles& written) {
  nlohmann::json json{{"own_state", written.own_state}, {"files", nlohmann::json::object()}};
  for (const auto& [name, digest] : written.files) json["files"][name] = {digest.bytes, digest.sha256};
  return json.dump();
}

/// All ranks' together.
WrittenFiles merged(const std::vector<std::string>& texts) {
  WrittenFiles all;
  for (const auto& text : texts) {
    const auto json = nlohmann::json::parse(text);
    all.own_state.merge(json.at("own_state").get<std::set<std::string>>());
    for (const auto& [name, digest] : json.at("files").items()) {
      all.files[name] = {digest.at(0).get<uint64_t>(), digest.at(1).get<std::string>()};
    }
  }
  return all;
}

/// A checkpoint that is being written. The destructor deletes it unless it was published, because a full disk needs the
/// room.
class BegunCheckpoint {
 public:
  explicit BegunCheckpoint(fs::path checkpoint) : checkpoint_(std::move(checkpoint)) { begin_checkpoint(checkpoint_); }
  ~BegunCheckpoint() {
    if (!is_published_) abandon_checkpoint(checkpoint_);
  }
  BegunCheckpoint(const BegunCheckpoint&) = delete;
  BegunCheckpoint& operator=(const BegunCheckpoint&) = delete;

  void publish() {
    publish_checkpoint(checkpoint_);
    is_published_ = true;
  }

 private:
  fs::path checkpoint_;
  bool is_published_ = false;
};

void write_part(WrittenFiles& written, const fs::path& partial, const std::string& name, const NamedTensors& tensors) {
  write_safetensors(partial / name, tensors);
  written.files[name] = digest_of_file(partial / name);
}

void check_same_folder(const fs::path& partial) {
  std::error_code ignored;
  if (fs::is_directory(partial, ignored)) return;
  throw UserError("the folder '" + shown(partial.parent_path()) + "' on " + host::host_name() +
                  " is not the one that rank 0 writes into; put checkpoints on a file system that all nodes share");
}

void check_all_arrived(const fs::path& partial, const WrittenFiles& written) {
  for (const auto& [name, digest] : written.files) {
    std::error_code error;
    if (fs::file_size(partial / name, error) == digest.bytes && !error) continue;
    throw UserError("rank 0 does not see " + shown(partial / name) +
                    " as another rank wrote it; put checkpoints on a file system that all nodes share");
  }
}

uint64_t next_sequence(const fs::path& folder) {
  uint64_t last = 0;
  for (const auto& found : find_checkpoints(folder)) {
    if (found.problem.empty()) last = std::max(last, found.sequence);
  }
  return last + 1;
}

Manifest describe(StepDriver& session, const fs::path& folder, const LoopState* loop, const TensorsByPlace& tensors,
                  const WrittenFiles& written, const host::StrategyState& strategy_state) {
  Runtime& runtime = session.runtime();
  const auto& strategy = runtime.selection().strategy;
  Manifest manifest;
  manifest.cohort_version = COHORT_VERSION;
  manifest.torch_version = TORCH_VERSION;
  manifest.sequence = next_sequence(folder);
  manifest.step = session.steps();
  const std::vector<uint64_t>& steps = strategy_state.steps;
  if (std::ranges::count(steps, session.steps()) != std::ssize(steps)) manifest.optimizer_steps = steps;
  manifest.world_size = runtime.world_size();
  manifest.strategy = strategy.name + (strategy.variant.empty() ? "" : ":" + strategy.variant);
  if (tensors.parameters_differ) manifest.per_rank.emplace_back(kWeights);
  if (tensors.optimizer_differs) manifest.per_rank.emplace_back(kOptimizerState);
  if (tensors.optimizer_is_tied) manifest.per_rank.emplace_back("optimizer state without a mean");
  std::ranges::copy(written.own_state, std::back_inserter(manifest.per_rank));
  manifest.layers = strategy_state.versions;
  if (loop) manifest.loop = loop->place;
  const auto names = parameter_names(session.module());
  for (const auto& optimizer : session.optimizers()) {
    manifest.optimizers.push_back(optimizer_settings(*optimizer, names));
  }
  manifest.files = written.files;
  return manifest;
}

SessionTensors tensors_of(StepDriver& session, const NamedTensors& buffers) {
  SessionTensors tensors{named_parameters_of(session.module()), buffers, {}};
  const auto names = parameter_names(session.module());
  const Optimizers& optimizers = session.optimizers();
  for (size_t phase = 0; phase < optimizers.size(); ++phase) {
    for (auto& item : optimizer_tensors(optimizers[phase], names, optimizer_prefix(phase, optimizers.size()))) {
      tensors.optimizer.push_back(std::move(item));
    }
  }
  return tensors;
}

}  // namespace

LockPatience patience_of(Runtime& runtime) {
  constexpr std::chrono::nanoseconds kLongest = std::chrono::minutes(2);
  return {std::min(kLongest, runtime.options().timeout / 2),
          [&log = runtime.log()](const std::string& line) { log.info(line); }};
}

fs::path save_checkpoint(StepDriver& session, const fs::path& folder, FolderLock* lock, const LoopState* loop,
                         std::optional<int64_t> keep) {
  session.check_equal_weights();  // before anything is written, so that earlier checkpoints stay
  Runtime& runtime = session.runtime();
  const fs::path checkpoint = folder / checkpoint_name(session.steps());
  const fs::path partial = partial_of(checkpoint);
  SessionTensors tensors;
  NamedTensors owned;  // state of the optimizers
  KeptBuffers buffers(session.module());
  std::optional<BegunCheckpoint> begun;  // on rank 0
  all_or_none(runtime, [&] {
    tensors = tensors_of(session, buffers.tensors());
    owned = take_owned(session, tensors.optimizer);
    if (lock) lock->keep();
    if (runtime.is_first()) begun.emplace(checkpoint);
  });

  const host::StrategyState strategy = session.pause_for_checkpoint();
  StrategyTensors of_strategy = strategy_tensors(session.module(), strategy);
  tensors.strategy = std::move(of_strategy.shared);
  TensorsByPlace divided = divide_by_rank(session, tensors);
  NamedTensors own = std::move(divided.own);
  const auto append = [&own](NamedTensors more) { std::move(more.begin(), more.end(), std::back_inserter(own)); };
  append(std::move(of_strategy.own));
  append(loop ? loop_tensors(*loop) : NamedTensors{{kGeneratorName, generator_state()}});
  append(device_generator_states(runtime.devices()));
  if (loop && runtime.is_first()) std::ranges::copy(loop->callbacks, std::back_inserter(divided.shared));

  WrittenFiles written;
  std::ranges::copy(names_of(strategy, /*is_shared=*/false), std::inserter(written.own_state, written.own_state.end()));
  all_or_none(runtime, [&] {
    check_same_folder(partial);
    write_part(written, partial, rank_file(runtime.rank()), own);
    if (!owned.empty()) write_part(written, partial, owned_file(runtime.rank()), owned);
    if (runtime.is_first()) write_part(written, partial, kSharedFile, divided.shared);
  });
  written = merged(runtime.all_gather(text_of(written)));
  all_or_none(runtime, [&] {
    if (!runtime.is_first()) return;
    check_all_arrived(partial, written);
    host::write_file(partial / kManifestFile, to_json(describe(session, folder, loop, divided, written, strategy)));
    begun->publish();
    if (keep) prune_checkpoints(folder, *keep);
  });
  buffers.put_back();
  return checkpoint;
}

void save(Session& session, const fs::path& folder) {
  Runtime& runtime = session.runtime();
  std::shared_ptr<FolderLock> lock;
  all_or_none(runtime, [&] {
    if (runtime.is_first()) lock = open_checkpoint_folder(folder, patience_of(runtime));
  });
  save_checkpoint(driver_of(session), folder, lock.get(), nullptr, runtime.options().keep_checkpoints);
}

}  // namespace cohort
