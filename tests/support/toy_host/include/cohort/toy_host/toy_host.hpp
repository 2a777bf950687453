// The toy host: ranks as threads of one process, an in-memory store, a model of plain numbers.
//
// Strategies and collectives run on the host's real code without LibTorch and without processes: for unit tests, for
// thread checkers, and for plugin authors. Every rank is one thread; a body must not touch another rank's objects.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <cohort/host/rank_runtime.hpp>

namespace cohort::toy {

struct ToyParameter {
  std::string name;
  uint64_t numel = 1;
  int32_t dtype = COHORT_FLOAT32;  ///< COHORT_FLOAT32 or COHORT_FLOAT64
  bool requires_grad = true;
};

/// Parameters as flat arrays, trained by plain SGD; every weight begins as `first_weight`.
class ToyModel final : public host::ModelPort {
 public:
  ToyModel(std::vector<ToyParameter> parameters, double first_weight, double learning_rate);
  ~ToyModel() override;
  ToyModel(const ToyModel&) = delete;
  ToyModel& operator=(const ToyModel&) = delete;

  std::vector<double> weights(uint32_t parameter) const;
  /// The gradient as the optimizer would see it; empty where there is none.
  std::vector<double> gradient(uint32_t parameter) const;
  /// What a backward computes: written to its place, or added where this step has one already.
  void add_gradient(uint32_t parameter, std::span<const double> values);
  /// The gradient is what lies in its place: other ranks' mean, where this rank's backward did not reach the parameter.
  void show_gradient(uint32_t parameter);
  void forget_gradient(uint32_t parameter);

  std::span<const cohort_tensor> parameters() override { return views_; }
  std::span<const cohort_tensor> buffers() override { return {}; }
  uint32_t num_phases() override { return 1; }
  uint32_t phase_of(uint32_t) override { return 0; }
  void place_gradients(uint32_t replica, std::span<void* const> places) override;
  void move_weights(std::span<void* const> places) override;
  void zero_gradient(uint32_t replica, uint32_t parameter) override;
  void optimizer_step(uint32_t phase) override;

 private:
  struct Slot;
  std::vector<Slot> slots_;
  std::vector<cohort_tensor> views_;
  double learning_rate_;

  void refresh_views();
};

/// A job of `num_nodes` nodes with equally many ranks.
struct ToyJob {
  std::vector<std::filesystem::path> plugin_dirs;
  std::vector<std::filesystem::path> plugins;
  StrategySpec strategy;
  std::vector<Spec> layers;
  CollectiveSpec collective;
  std::string accelerator = "cpu";  ///< whose kernels are used; the model's own tensors are in host memory
  int world_size = 2;
  int num_nodes = 1;
  std::chrono::milliseconds timeout{20'000};
  std::optional<uint64_t> bucket_size;
};

/// What a rank's body works with.
struct ToyRank {
  host::RankRuntime& runtime;
  int rank;
  int world_size;

  /// One step: `gradients[i]` is what backward computes for parameter i; empty: backward does not reach it.
  Votes step(host::StepEngine& engine, ToyModel& model, std::span<const std::vector<double>> gradients);
};

/// Connects the ranks, runs `body` on each, shuts down together, and throws the first rank's exception, if any.
void run_ranks(const ToyJob& job, const std::function<void(ToyRank&)>& body);

/// As run_ranks, but gives each rank's exception text, "" where it had none.
std::vector<std::string> run_ranks_to_failure(const ToyJob& job, const std::function<void(ToyRank&)>& body);

}  // namespace cohort::toy
