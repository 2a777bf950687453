// Steps in parts, and pauses between them: what the Trainer, its replicas and checkpoints need of a training. Users see
// a Session, which stands on the same.
//
// Made by Runtime::make_driver for one model, its clones and its optimizers; borrows the modules and the runtime. One
// thread at a time except where a function says otherwise; the same calls in the same order on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/host/state_owners.hpp>
#include <cohort/host/strategy_state.hpp>
#include <cohort/host/votes.hpp>
#include <cohort/loss_scale.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/runtime.hpp>
#include <cohort/session.hpp>

namespace cohort {

class StepGraph;

/// Functions that a loop has called in each of its steps. Any may be empty.
struct StepHooks {
  std::function<void(const at::Tensor& loss)> before_backward;  ///< called by whoever has the loss: see backward()
  std::function<void()> after_backward;                         ///< of backward() alone
  std::function<void(size_t phase)> before_optimizer_step;      ///< gradients are complete and not clipped yet
  std::function<void(size_t phase)> before_zero_grad;           ///< the optimizer has stepped on gradients still there
  bool runs_all_phases = false;  ///< the loop runs every optimizer in each step, in their order
  /// Runs forward and backward of the step's batch anew and returns the loss, for an optimizer that asks several times.
  std::function<at::Tensor(size_t phase)> evaluate;
};

class StepDriver {
 public:
  StepDriver() = default;
  virtual ~StepDriver() = default;
  StepDriver(const StepDriver&) = delete;
  StepDriver& operator=(const StepDriver&) = delete;

  /// Begins a micro-batch of this phase. Call it before each forward.
  virtual void begin(size_t phase = 0) = 0;
  /// Begins every phase that has not: before the forward of a step that calls select() and step() as it likes.
  virtual void begin_all() = 0;
  /// Makes a phase that has begun the current one; begins it where it has not.
  virtual void select(size_t phase) = 0;

  /// Runs backward of loss x scale on replica 0: run_backward and end_backward. Throws UserError for what is no loss.
  void backward(const at::Tensor& loss, double scale = 1.0);
  /// Runs the backward of a replica, from `roots`, which have these gradients. May run on a thread of the replica.
  virtual void run_backward(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& gradients,
                            uint32_t replica = 0) = 0;
  /// Runs backward of replica 0 from `roots` to `leaves` as well, which get gradients. May run on several threads at
  /// once if no two of them reach the same parameter.
  virtual void run_backward_to(const std::vector<at::Tensor>& leaves, const std::vector<at::Tensor>& roots,
                               const std::vector<at::Tensor>& gradients) = 0;
  /// While on, gradients only add up: another backward of the same micro-batch follows.
  virtual void set_partial(bool partial) = 0;
  /// Says, while partial is on, that no other backward of the micro-batch reaches these parameters of the module. Any
  /// thread.
  virtual void complete(const std::vector<at::Tensor>& parameters) = 0;
  /// Keeps what take_back needs of the micro-batch that has begun, until end_backward: a copy of the gradients, if an
  /// earlier micro-batch has some. With `holds`, other ranks get none of it before end_backward.
  virtual void begin_attempt(bool holds) = 0;
  /// Returns gradients and losses to what they were when the attempt began, after a backward that failed. Returns
  /// false, and changes nothing, if other ranks may have got gradients.
  virtual bool take_back() = 0;
  /// Takes over the devices that the program has moved the module's parameters to, between two steps: master weights,
  /// the optimizers' state and the places of gradients go there, too. Collective.
  virtual void follow_devices() = 0;
  /// Waits until the gradients of the phase are averaged, if this was the last backward of its step.
  virtual void end_backward() = 0;
  /// Lets begin and backward only add to the gradients, while true; see NoSync. Throws UserError if the strategy
  /// cannot.
  virtual void set_no_sync(bool no_sync) = 0;

  /// Runs the optimizer of the current phase, or of another one whose backward is done; afterwards its gradients are
  /// undefined. Returns what the ranks voted.
  virtual Votes step(std::optional<size_t> phase = std::nullopt) = 0;
  /// Sets the hooks of all later steps.
  void set_hooks(StepHooks hooks) { hooks_ = std::move(hooks); }
  const StepHooks& hooks() const { return hooks_; }
  /// Limits the gradients of all later steps; nothing: they stay as they are. Throws UserError if the strategy cannot.
  virtual void clip_gradients(std::optional<GradientClip> clip) = 0;
  /// Captures one whole step, from begin to step(), that `run` takes: nothing of it runs on the device before the first
  /// replay, though it is counted. Throws UserError, which tells of --graph, if it cannot be captured.
  virtual void capture(StepGraph& graph, const std::function<void()>& run) = 0;
  /// Counts a step that was a replay. Returns what the ranks voted, in the steps of vote_every().
  virtual Votes count_replayed_step() = 0;
  /// Returns how many optimizer steps are done.
  virtual uint64_t steps() const = 0;

  /// Says this with the coming step. Call it before its backward.
  virtual void vote(Votes votes) = 0;
  /// Sends votes in every n-th step only (default 1), under a strategy that averages no gradients, where votes are a
  /// message of their own; between them step() returns none. Above 0; the same on all ranks.
  virtual void vote_every(uint64_t steps) = 0;
  /// Returns what the ranks vote, asked without a step. Collective.
  virtual Votes exchange_votes() = 0;

  /// See Session.
  virtual at::Tensor all_reduce(const at::Tensor& tensor, bool mean = true) = 0;
  virtual at::Tensor all_gather(const at::Tensor& tensor) = 0;

  /// Pauses training for a checkpoint, until the next begin, and returns what the strategy of this rank keeps.
  /// Collective.
  virtual host::StrategyState pause_for_checkpoint() = 0;
  /// Gives that back before the first step; `steps` were done when it was kept. Collective.
  virtual void resume_after(uint64_t steps, host::StrategyState state) = 0;
  /// Returns which ranks keep the optimizer's state of a parameter of the module.
  virtual host::StateKeeper state_keeper(const at::Tensor& parameter) const = 0;
  /// Takes state that something else has given the optimizers to where the strategy wants it.
  virtual void optimizers_restored() = 0;

  /// Pauses training for an evaluation, until the next begin: every rank gets rank 0's buffers. Collective.
  virtual void pause_for_evaluation() = 0;
  /// See Session.
  virtual void finish() = 0;
  virtual void check_equal_weights() = 0;
  /// Returns the float32 weights of which a parameter of the module is a rounded copy (precision.hpp), or the
  /// parameter.
  virtual const at::Tensor& weights_of(const at::Tensor& parameter) const { return parameter; }
  /// The factor of losses; nothing: they are not scaled.
  virtual std::optional<LossScale> loss_scale() const { return std::nullopt; }
  virtual void set_loss_scale(const LossScale& /*scale*/) {}
  /// Returns the gradient that the backward of a replica's loss starts from, in the loss's shape and type: `scale`,
  /// times the loss scale as it was when the step began; undefined: one. Keeps the loss for layers that read it. May
  /// run on a thread of the replica.
  virtual at::Tensor root_gradient(const at::Tensor& loss, double scale, uint32_t replica = 0) = 0;

  /// Returns the numbers that the strategy has set for the summary in this training, by name ("rounds"), and those of
  /// the loss scale.
  virtual std::map<std::string, double> strategy_metrics() const = 0;

  /// Returns the parameters that an optimizer trains and that no loss of this training has reached so far, by name;
  /// nothing with --unused=zero, or if an earlier run has begun it. What other ranks have reached is known under
  /// strategies that average gradients.
  virtual std::vector<std::string> unused_parameters() const { return {}; }

  virtual const Optimizers& optimizers() const = 0;
  virtual torch::nn::Module& module() const = 0;  ///< replica 0
  virtual Runtime& runtime() const = 0;

 private:
  StepHooks hooks_;
};

/// Returns what the session stands on.
StepDriver& driver_of(Session& session);

}  // namespace cohort
