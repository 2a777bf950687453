// The model and its optimizers as the host sees them, without LibTorch.
//
// Implemented over tensors in the runtime's core and over plain arrays in the toy host. Called on the step thread, or
// on the main thread while the model is configured. A model may have several replicas in this process, each with
// gradients of its own; weights and optimizers are those of replica 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/api/strategy.h>

namespace cohort::host {

/// The optimizers, by phase. Functions throw UserError for what an optimizer cannot do.
class OptimizerPort {
 public:
  virtual ~OptimizerPort() = default;

  /// The step over the parameters of the phase, with learning rates times the factor.
  virtual void step(uint32_t phase) = 0;
  /// Steps some of them, each named once. Only if check_partial throws nothing.
  virtual void step(uint32_t phase, std::span<const uint32_t> parameters) = 0;
  /// Throws UserError for an optimizer that cannot step some of its parameters alone.
  virtual void check_partial(uint32_t phase) = 0;
  virtual void set_lr_factor(uint32_t phase, double factor) = 0;
  /// Returns the settings that have to be equal on all ranks, one on each line: "optimizer 0, group 1: lr = 0.01".
  virtual std::string settings() { return ""; }
  /// As in optimizer/1: "" for a kind that is not known; nothing where there is no such setting or count.
  virtual const char* kind(uint32_t phase) = 0;
  virtual std::optional<double> hyper(uint32_t parameter, std::string_view name) = 0;
  virtual std::optional<int64_t> counted_steps(uint32_t parameter) = 0;
  virtual void set_counted_steps(uint32_t parameter, int64_t steps) = 0;

  /// Moves state of this name to these places, by parameter, values kept; null: stays where it is.
  virtual void move_state(const std::string& name, std::span<void* const> places) = 0;
  /// Returns the parameters for which something is kept: mostly none before the first step.
  virtual std::vector<uint32_t> with_state() = 0;
  /// Says in words what is kept for these parameters: the same text, the same tensors and counts. "" for none.
  virtual std::string state_shape(std::span<const uint32_t> parameters) = 0;
  /// Makes the state what state_shape told of on another rank, with zeros, and returns the parameters that it told of.
  /// State of others stays.
  virtual std::vector<uint32_t> take_state_shape(const std::string& shape) = 0;
  /// Returns the tensors that are kept for these parameters, in their order. Valid until the state changes.
  virtual std::vector<cohort_tensor> state_tensors(std::span<const uint32_t> parameters) = 0;
  /// Forgets what is kept for these parameters, until they are stepped.
  virtual void forget_state(std::span<const uint32_t> parameters) = 0;
};

class ModelPort {
 public:
  virtual ~ModelPort() = default;

  /// In registration order; `id` is the index. Valid until the next move_weights.
  virtual std::span<const cohort_tensor> parameters() = 0;
  virtual std::span<const cohort_tensor> buffers() = 0;
  virtual uint32_t num_replicas() { return 1; }
  virtual uint32_t num_phases() = 0;  ///< optimizers
  /// The optimizer that owns a parameter.
  virtual uint32_t phase_of(uint32_t parameter) = 0;

  /// Where replica 0's gradients of parameters belong, by id; null: not in a bucket. Valid until the next call.
  virtual void place_gradients(std::span<void* const> places) = 0;
  /// Where replica 0's backward may make gradients that have no place: a piece of memory for each, until the next call.
  /// False where something still lies in what was lent before, or in places from before the last place_gradients.
  virtual bool lend_memory(std::span<const std::span<std::byte>>) { return true; }
  /// First byte of a replica's gradient, in the parameter's layout and type; null: it has none. [any-thread], once the
  /// gradient is complete.
  virtual void* gradient_data(uint32_t replica, uint32_t parameter) = 0;
  /// False where the program has taken away what backward made.
  virtual bool has_gradient(uint32_t, uint32_t) { return true; }
  /// Moves the weights to these places, values kept; null: stays where it is.
  virtual void move_weights(std::span<void* const> places) = 0;
  /// There is none after a replica's backward: zeros for replica 0, no gradient for the others.
  virtual void zero_gradient(uint32_t replica, uint32_t parameter) = 0;
  /// Limits the gradients of a phase that replica 0 shows, as cohort_clip_args says.
  virtual void clip_gradients(uint32_t phase, const cohort_clip_args& args) = 0;
  /// Returns the loss of a step that has run its last backward, on the device of a parameter: see cohort_step. Called
  /// only if a layer reads it.
  virtual const float* loss(uint32_t /*phase*/, uint32_t /*parameter*/) { return nullptr; }
  /// While true, gradients are multiples of the loss scale until they are divided by it.
  virtual bool has_loss_scale() { return false; }
  /// Divides the gradients of a bucket by the loss scale, or those that replica 0 shows of a phase, and notes whether
  /// all are finite. On the stream of the calling thread, one at a time.
  virtual void unscale(const cohort_bucket&) {}
  virtual void unscale(uint32_t) {}
  /// Returns whether one was not finite since the last call. Waits for the device.
  virtual bool take_overflow() { return false; }
  virtual OptimizerPort& optimizers() = 0;
  /// After a step: what replica 0 holds goes to the others.
  virtual void refresh_replicas() {}
};

}  // namespace cohort::host
