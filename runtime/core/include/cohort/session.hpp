// One model and its optimizers trained by the chosen strategy, in a loop of the user's own.
//
//   auto session = app.session(model, optimizers);
//   for (auto& batch : batches) {
//     session.begin();
//     session.backward(loss(model.forward(batch.x), batch.y));
//     session.step();
//   }
//   session.finish();
//
// With several optimizers each is a phase, with parameters of its own: begin(phase), backward, step. Borrows model and
// runtime. One thread at a time; the same calls in the same order on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

#include <cohort/optimizers.hpp>
#include <cohort/precision.hpp>
#include <cohort/runtime.hpp>

namespace torch::nn {
class Module;
}

namespace cohort {

class StepDriver;

/// What gradients are limited to before the optimizer's step, when they are averaged over the ranks.
struct GradientClip {
  enum class By { kNorm, kValue };
  By by = By::kNorm;
  /// kNorm: the 2-norm over all gradients of the phase, which are scaled down together; kValue: each element's
  /// magnitude.
  double limit = 0;
};

/// While it lives, begin and backward only add to the gradients: all but the last micro-batch of a step.
class NoSync {
 public:
  /// Throws UserError if the strategy cannot.
  explicit NoSync(StepDriver& driver);
  ~NoSync();
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  StepDriver& driver_;
};

class Session {
 public:
  /// Checks that all ranks have the same model, gives every rank rank 0's weights, and lays out the buckets.
  /// Collective. Throws UserError with a table where models differ.
  Session(Runtime& runtime, torch::nn::Module& model, Optimizers optimizers);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Begins a micro-batch of this phase. Call it before each forward. The first one of a session that was not loaded
  /// seeds the random numbers of the rank (--rank-noise).
  void begin(size_t phase = 0);
  /// Runs backward of loss x scale; gradients are averaged over the ranks while it runs. `loss` is a scalar. With
  /// several optimizers it reaches the parameters of the phase only. Read `grad()` before step(); to keep one, clone
  /// it. A strategy whose ranks own parameters shows each rank the gradients of its own. What it throws ends the step:
  /// begin() makes a new one, without its gradients, if all ranks have thrown alike.
  void backward(const at::Tensor& loss, double scale = 1.0);
  /// Returns the guard for a forward pass and its loss, if --precision is a mixed one:
  /// `{ auto guard = session.autocast(); loss = loss_of(model(x)); } session.backward(loss);`
  [[nodiscard]] Autocast autocast() const;
  /// Runs the optimizer of the phase that began last, or of another one whose backward is done; afterwards its
  /// gradients are undefined.
  void step(std::optional<size_t> phase = std::nullopt);
  /// Returns the guard for all but the last micro-batch of a step: `auto guard = session.no_sync();`. Throws UserError
  /// if the strategy cannot.
  [[nodiscard]] NoSync no_sync();
  /// Limits the gradients of all later steps; nothing: they stay as they are. Throws UserError if the strategy cannot.
  void clip_gradients(std::optional<GradientClip> clip);
  /// Returns how many optimizer steps are done.
  uint64_t steps() const;

  /// Returns the elementwise mean (or sum) over the ranks, in a new tensor. Collective.
  at::Tensor all_reduce(const at::Tensor& tensor, bool mean = true);
  /// Returns [world_size, ...tensor's shape]: every rank's tensor, in rank order. Gradients flow back. Collective.
  at::Tensor all_gather(const at::Tensor& tensor);

  /// Ends training on all ranks, before results are read and this object is destroyed. Calls check_equal_weights().
  void finish();
  /// Throws TrainingFailed on all ranks if a sample of their weights differs. Does nothing if the strategy lets ranks
  /// have different weights. finish() and save() of a checkpoint call it. Collective; between steps.
  void check_equal_weights();

  const Optimizers& optimizers() const;
  torch::nn::Module& module() const;
  Runtime& runtime() const;

 private:
  friend StepDriver& driver_of(Session& session);
  std::unique_ptr<StepDriver> driver_;
  bool has_begun_ = false;
};

}  // namespace cohort
