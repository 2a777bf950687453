// The model and its optimizers as the host sees them, without LibTorch.
//
// Implemented over tensors in the runtime's core and over plain arrays in the toy host. Called on the step thread, or
// on the main thread while the model is configured. A model may have several replicas in this process, each with
// gradients of its own; weights and optimizers are those of replica 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cohort/api/tensor.h>

namespace cohort::host {

class ModelPort {
 public:
  virtual ~ModelPort() = default;

  /// In registration order; `id` is the index. Valid until the next move_weights.
  virtual std::span<const cohort_tensor> parameters() = 0;
  virtual std::span<const cohort_tensor> buffers() = 0;
  virtual uint32_t num_replicas() { return 1; }
  virtual uint32_t num_phases() = 0;
  /// The optimizer that owns a parameter.
  virtual uint32_t phase_of(uint32_t parameter) = 0;

  /// Where a replica's gradients of parameters belong, by id; null: not in a bucket. Valid until the next call.
  virtual void place_gradients(uint32_t replica, std::span<void* const> places) = 0;
  /// Moves the weights to these places, values kept; null: stays where it is.
  virtual void move_weights(std::span<void* const> places) = 0;
  /// Zeros a replica's gradient in its place.
  virtual void zero_gradient(uint32_t replica, uint32_t parameter) = 0;
  /// The optimizer's step over the parameters of the phase.
  virtual void optimizer_step(uint32_t phase) = 0;
  /// After a step: what replica 0 holds goes to the others.
  virtual void refresh_replicas() {}
};

}  // namespace cohort::host
