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
  int32_t dtype = COHORT_FLOAT32;  ///< a floating-point type
  bool requires_grad = true;
  uint32_t phase = 0;  ///< the optimizer that owns it
};

/// What training changes, by parameter; every value is exact.
struct ToyState {
  std::vector<std::vector<double>> weights, momenta;
};

/// Parameters as flat arrays, trained by SGD: m = momentum m + g, w = w - learning_rate m. Every weight begins as
/// `first_weight`. Replicas share the weights and have gradients of their own.
class ToyModel final : public host::ModelPort {
 public:
  ToyModel(std::vector<ToyParameter> parameters, double first_weight, double learning_rate, double momentum = 0,
           uint32_t replicas = 1);
  ~ToyModel() override;
  ToyModel(const ToyModel&) = delete;
  ToyModel& operator=(const ToyModel&) = delete;

  std::vector<double> weights(uint32_t parameter) const;
  ToyState state() const;
  /// Rounds to the types of the parameters.
  void set_state(const ToyState& state);
  /// The gradient as the optimizer would see it; empty where there is none.
  std::vector<double> gradient(uint32_t parameter) const;
  /// What a backward computes: written to its place, or added where this step has one already. On the thread of the
  /// replica.
  void add_gradient(uint32_t parameter, std::span<const double> values, uint32_t replica = 0);
  /// The gradient is what lies in its place: other ranks' mean, where this rank's backward did not reach the parameter.
  void show_gradient(uint32_t parameter);
  /// Of all replicas.
  void forget_gradient(uint32_t parameter);

  std::span<const cohort_tensor> parameters() override { return views_; }
  std::span<const cohort_tensor> buffers() override { return {}; }
  uint32_t num_replicas() override { return replicas_; }
  uint32_t num_phases() override;
  uint32_t phase_of(uint32_t parameter) override;
  void place_gradients(uint32_t replica, std::span<void* const> places) override;
  void move_weights(std::span<void* const> places) override;
  void zero_gradient(uint32_t replica, uint32_t parameter) override;
  void optimizer_step(uint32_t phase) override;

 private:
  struct Slot;
  std::vector<Slot> slots_;
  std::vector<cohort_tensor> views_;
  double learning_rate_;
  double momentum_;
  uint32_t replicas_;

  void refresh_views();
};

/// A job of `num_nodes` nodes with equally many ranks.
struct ToyJob {
  std::vector<std::filesystem::path> plugin_dirs;
  std::vector<std::filesystem::path> plugins;
  host::PluginHost* plugin_host = nullptr;  ///< of several jobs, opened once; null: one for this job, of the above
  StrategySpec strategy;
  std::vector<Spec> layers;
  CollectiveSpec collective;
  std::string accelerator = "cpu";  ///< whose kernels are used; the model's own tensors are in host memory
  int world_size = 2;
  int num_nodes = 1;
  int replicas = 1;  ///< of the model in each rank
  std::chrono::milliseconds timeout{20'000};
  std::optional<uint64_t> bucket_size;
};

/// What a rank's body works with.
struct ToyRank {
  host::RankRuntime& runtime;
  int rank;
  int world_size;

  /// What the backward of each replica computes: `[replica * parameters + parameter]`; empty: it does not reach it.
  using Gradients = std::span<const std::vector<double>>;

  /// One micro-batch. Replicas beside the first run their backward on threads of their own.
  void backward(host::StepEngine& engine, ToyModel& model, Gradients gradients, bool last = true, uint32_t phase = 0);
  /// The optimizer step of a phase, after its last micro-batch.
  void update(host::StepEngine& engine, ToyModel& model, uint32_t phase = 0);
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
