// The toy host: ranks as threads of one process, an in-memory store, a model of plain numbers.
//
// Strategies and collectives run on the host's real code without LibTorch and without processes: for unit tests, for
// thread checkers, and for plugin authors. Every rank is one thread; a body must not touch another rank's objects.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cohort/host/connected_rank.hpp>
#include <cohort/toy_host/toy_model.hpp>

namespace cohort::toy {

/// A job of `num_nodes` nodes with equally many ranks.
struct ToyJob {
  std::vector<std::filesystem::path> plugin_dirs;
  std::vector<std::filesystem::path> plugins;
  host::PluginHost* plugin_host = nullptr;  ///< of several jobs, opened once; null: one for this job, of the above
  StrategySpec strategy;
  std::vector<Spec> layers;
  CollectiveSpec collective;
  std::string accelerator = "cpu";  ///< whose kernels are used
  /// Makes a rank's device, of that accelerator; empty: tensors are in host memory.
  std::function<std::unique_ptr<ToyDevice>(int rank)> make_device;
  int world_size = 2;
  int num_nodes = 1;
  int replicas = 1;             ///< of the model in each rank
  int parts = 1;                ///< the same
  bool inspects_layers = true;  ///< finds who writes behind a bucket; false: buckets are as large as in training
  std::chrono::milliseconds timeout{20'000};
  std::optional<uint64_t> bucket_size;
  std::optional<std::filesystem::path> autotune_file;
  std::optional<host::Key> secret;
  /// Makes a rank's own store, in front of the shared one; empty: ranks use that one.
  std::function<std::unique_ptr<host::Store>(host::Store& shared, int rank)> open_store;
};

/// What a rank's body works with.
struct ToyRank {
  host::ConnectedRank& runtime;
  int rank;
  int world_size;
  ToyDevice* device;  ///< for a ToyModel; null: host memory

  /// How update() limits gradients, and the norm that they had before.
  struct Clip {
    int32_t by = COHORT_CLIP_NORM;
    double limit = 1;
  };
  std::optional<Clip> clip{};
  double norm = 0;

  /// What the backward of each replica computes: `[replica * parameters + parameter]`; empty: it does not reach it.
  using Gradients = std::span<const std::vector<double>>;

  /// One micro-batch. Replicas beside the first run their backward on threads of their own.
  void backward(host::StepEngine& engine, ToyModel& model, Gradients gradients, bool last = true, uint32_t phase = 0);
  /// The optimizer step of a phase, after its last micro-batch.
  void update(host::StepEngine& engine, ToyModel& model, uint32_t phase = 0);
  /// The same without the step: limits gradients as `clip` says, and measures their norm.
  void limit_gradients(host::StepEngine& engine, uint32_t phase);
  /// Both, with one micro-batch.
  Votes step(host::StepEngine& engine, ToyModel& model, Gradients gradients);
};

/// Connects the ranks, runs `body` on each, shuts down together, and throws the first rank's exception, if any.
void run_ranks(const ToyJob& job, const std::function<void(ToyRank&)>& body);

/// As run_ranks, but gives each rank's exception text, "" where it had none.
std::vector<std::string> run_ranks_to_failure(const ToyJob& job, const std::function<void(ToyRank&)>& body);

/// One rank, alone in its process: the others find it by the store, which all of them have. Throws what it throws.
void run_rank(const ToyJob& job, int rank, cohort_store* store, const std::function<void(ToyRank&)>& body);

}  // namespace cohort::toy
