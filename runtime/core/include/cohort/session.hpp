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
// With several optimizers each is a phase, with parameters of its own: begin(phase), backward, step. Borrows model and
// runtime. One thread at a time; the same calls in the same order on every rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/host/state_owners.hpp>
#include <cohort/host/strategy_state.hpp>
#include <cohort/host/votes.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/runtime.hpp>

namespace torch::nn {
class Module;
}

namespace cohort {

/// What gradients are limited to before the optimizer's step, when they are averaged over the ranks.
struct GradientClip {
  enum class By { kNorm, kValue };
  By by = By::kNorm;
  /// kNorm: the 2-norm over all gradients of the phase, which are scaled down together; kValue: each element's
  /// magnitude.
  double limit = 0;
};

class Session {
 public:
  /// Checks that all ranks have the same model, gives every rank rank 0's weights, and lays out the buckets.
  /// Collective. Throws UserError with a table where models differ.
  Session(Runtime& runtime, torch::nn::Module& model, Optimizers optimizers);
  /// The model and its clones, for a strategy with several replicas in a process (the Trainer's part).
  Session(Runtime& runtime, std::span<torch::nn::Module* const> replicas, Optimizers optimizers);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Before each forward.
  void begin(size_t phase = 0);
  /// Runs backward of loss x scale; gradients are averaged over the ranks while it runs. `loss` is a scalar. With
  /// several optimizers it reaches the parameters of the phase only. Read `grad()` before step(); to keep one, clone
  /// it. A strategy whose ranks own parameters shows each rank the gradients of its own. What it throws ends the step:
  /// begin() makes a new one, without its gradients, if all ranks have thrown alike.
  void backward(const at::Tensor& loss, double scale = 1.0);
  /// The step of the phase that began last, or of another one whose backward is done; afterwards its gradients are
  /// undefined. Returns what the ranks voted.
  Votes step();
  Votes step(size_t phase);
  /// For all later steps; nothing: gradients stay as they are. Throws UserError if the strategy cannot.
  void clip_gradients(std::optional<GradientClip> clip);
  /// What this rank says with the coming step. Call before its backward.
  void vote(Votes votes);
  /// Under a strategy that averages no gradients votes are a message of their own: sent in every n-th step only
  /// (default 1); between them step() returns none. Above 0; the same on all ranks.
  void vote_every(uint64_t steps);
  /// Optimizer steps done.
  uint64_t steps() const;

  // backward() in parts.
  /// The backward of a replica, from `roots`, which have these gradients. May run on a thread of the replica.
  void run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                    uint32_t replica = 0);
  /// Before that: from a loss that was computed from `leaves`, which get gradients. Parameters of replica 0 that it
  /// reaches may be reached again by run_backward.
  void run_backward_to(const std::vector<at::Tensor>& leaves, const at::Tensor& loss, const at::Tensor& gradient);
  void end_backward();
  /// Begins every phase that has not: before the forward of a step that calls select() and step() as it likes.
  void begin_all();
  /// Makes a phase that has begun the current one; begins it where it has not.
  void select(size_t phase);
  /// What the ranks vote, asked without a step. Collective.
  Votes exchange_votes();

  /// While the guard lives, begin and backward only add to the gradients: all but the last micro-batch of a step.
  /// Throws UserError if the strategy cannot.
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

  /// Pauses training for a checkpoint, until the next begin, and returns what the strategy of this rank keeps.
  /// Collective.
  host::StrategyState pause_for_checkpoint();
  /// Gives that back before the first step; `steps` were done when it was kept. Collective.
  void resume_after(uint64_t steps, host::StrategyState state);
  /// Returns which ranks keep the optimizer's state of a parameter of the module.
  host::StateKeeper state_keeper(const at::Tensor& parameter) const;
  /// Whenever something else has given the optimizers other state: it goes where the strategy wants it.
  void optimizers_restored();

  /// Pauses training for an evaluation, until the next begin: every rank gets rank 0's buffers. Collective.
  void pause_for_evaluation();
  /// Ends training on all ranks, before results are read and this object is destroyed. Calls check_equal_weights().
  void finish();
  /// Throws TrainingFailed on all ranks if a sample of their weights differs. Does nothing if the strategy lets ranks
  /// have different weights. save() and finish() call it. Collective; between steps.
  void check_equal_weights();
  /// Returns the numbers that the strategy has set for the summary in this training, by name: "rounds".
  std::map<std::string, double> strategy_metrics() const;

  const Optimizers& optimizers() const;
  torch::nn::Module& module() const;
  Runtime& runtime() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cohort
