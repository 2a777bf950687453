// One model and its optimizers trained by the chosen strategy, in a loop of the user's own. The Trainer is written on
// it.
//
//   auto session = app.session(model, optimizers);
//   for (auto& batch : batches) {
//     session.begin();
//     session.backward(loss(model.forward(batch.x), batch.y));
//     session.step();
//   }
//
// Borrows model and runtime. One thread at a time; the same calls in the same order on every rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include <ATen/core/Tensor.h>

#include <cohort/host/strategy_state.hpp>
#include <cohort/host/votes.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/runtime.hpp>

namespace torch::nn {
class Module;
}

namespace cohort {

class Session {
 public:
  /// Checks that all ranks have the same model, gives every rank rank 0's weights, and lays out the buckets.
  /// Collective. Throws UserError with a table where models differ.
  Session(Runtime& runtime, torch::nn::Module& model, Optimizers optimizers);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Before each forward.
  void begin();
  /// Runs backward of loss x scale; gradients are averaged over the ranks while it runs. `loss` is a scalar.
  void backward(const at::Tensor& loss, double scale = 1.0);
  /// The optimizer step; afterwards gradients are undefined. Returns what the ranks voted.
  Votes step();
  /// What this rank says with the coming step. Call before its backward.
  void vote(Votes votes);
  /// Optimizer steps done.
  uint64_t steps() const;

  /// While the guard lives, begin and backward only add to the gradients: all but the last micro-batch of a step.
  class NoSync {
   public:
    explicit NoSync(Session& session);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    Session& session_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(*this); }

  /// Elementwise mean (or sum) over the ranks, in a new tensor. Collective.
  at::Tensor all_reduce(const at::Tensor& tensor, bool mean = true);
  /// [world_size, ...tensor's shape]: every rank's tensor, in rank order. Gradients flow back. Collective.
  at::Tensor all_gather(const at::Tensor& tensor);

  /// Writes a checkpoint into this folder, beside earlier ones of which the newest (--keep-checkpoints) stay; or goes
  /// on from such a checkpoint, or from the newest of a folder. Between steps. Collective; all ranks see the same
  /// folder. Throws UserError. The formats of files, and these two functions, are in the trainer library.
  void save(const std::filesystem::path& folder);
  void load(const std::filesystem::path& checkpoint);

  /// For checkpoints: training pauses, and what the strategy of this rank keeps; after resume it goes on. Collective.
  host::StrategyState pause_for_checkpoint();
  /// What it kept comes back, before the first step; `steps` were done then.
  void resume_after(uint64_t steps, host::StrategyState state);

  /// Training stops for an evaluation and goes on. pause gives every rank rank 0's buffers. Collective.
  void pause_for_evaluation();
  void resume();
  /// The end of training, on all ranks, before results are read.
  void finish();

  const Optimizers& optimizers() const;
  torch::nn::Module& module() const;
  Runtime& runtime() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort
