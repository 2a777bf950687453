// The moments around the steps of a Module: override those that are needed.
//
// A Callback (callback.hpp) has moments of the same names, with the Fit as a further argument. The module's come first.
// They run on the thread of the loop and on the user's own module; in the ranks, unless it says otherwise here. A hook
// that communicates has to do so on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>

#include <ATen/core/Tensor.h>

#include <cohort/metrics.hpp>
#include <cohort/stage.hpp>
#include <cohort/step_moments.hpp>
#include <cohort/value.hpp>

namespace cohort {

class CallbackState;

class ModuleHooks : public StepMoments {
 public:
  virtual ~ModuleHooks() = default;

  /// First and last in a call of the Trainer, in the calling process if ranks are forked. Layers may be made in setup:
  /// the module is moved to its device, and its optimizers are made, after it. There is no teardown if the call throws.
  virtual void setup(Stage /*stage*/) {}
  virtual void teardown(Stage /*stage*/) {}
  /// Before configure_optimizers, and when the trained weights are back; in the calling process if ranks are forked.
  virtual void on_fit_start() {}
  virtual void on_fit_end() {}

  /// When a resumed training stands where it was left, and after the last step.
  virtual void on_train_start() {}
  virtual void on_train_end() {}
  virtual void on_train_epoch_start(int64_t /*epoch*/) {}
  /// After the validation of the epoch; what is logged here is a value of the epoch.
  virtual void on_train_epoch_end(int64_t /*epoch*/) {}
  /// Around all that is done with a batch. What is logged from here on until the end of the batch belongs to it. Under
  /// --uneven=join on the ranks that have one.
  virtual void on_train_batch_start(const Batch& /*batch*/, int64_t /*index*/) {}
  virtual void on_train_batch_end(const Batch& /*batch*/, int64_t /*index*/) {}

  // Within a step. --graph refuses a module that overrides one of these four: a replay calls none.
  /// Under dp and ddp2 the loss is that of replica 0's piece, and the hook runs on that replica's thread, unless
  /// training_step_end gives the loss of the whole batch.
  virtual void on_before_backward(const at::Tensor& /*loss*/) { note_empty(kBeforeBackward); }
  /// Gradients are there; after the last backward of a step they are averaged over the ranks.
  virtual void on_after_backward() { note_empty(kAfterBackward); }
  /// Gradients of the optimizer are complete and not clipped yet: a way of one's own to clip them goes here.
  virtual void on_before_optimizer_step(size_t /*optimizer*/) { note_empty(kBeforeOptimizerStep); }
  /// The optimizer has stepped, and its gradients are about to go.
  virtual void on_before_zero_grad(size_t /*optimizer*/) { note_empty(kBeforeZeroGrad); }

  // In a pass over data without gradients, in evaluation mode; what is logged in and between the hooks of batches, and
  // in epoch_end, counts. `means`, over all ranks, is empty if a signal has ended the pass; the mode is as before then.
  virtual void on_validation_start() {}
  virtual void on_validation_epoch_start() {}
  virtual void on_validation_batch_start(const Batch& /*batch*/, int64_t /*index*/) {}
  virtual void on_validation_batch_end(const Batch& /*batch*/, int64_t /*index*/) {}
  virtual void on_validation_epoch_end() {}
  virtual void on_validation_end(const Metrics& /*means*/) {}
  virtual void on_test_start() {}
  virtual void on_test_epoch_start() {}
  virtual void on_test_batch_start(const Batch& /*batch*/, int64_t /*index*/) {}
  virtual void on_test_batch_end(const Batch& /*batch*/, int64_t /*index*/) {}
  virtual void on_test_epoch_end() {}
  virtual void on_test_end(const Metrics& /*means*/) {}
  virtual void on_predict_start() {}
  virtual void on_predict_epoch_start() {}
  virtual void on_predict_batch_start(const Batch& /*batch*/, int64_t /*index*/) {}
  virtual void on_predict_batch_end(const Batch& /*batch*/, int64_t /*index*/) {}
  virtual void on_predict_epoch_end() {}
  virtual void on_predict_end() {}

  /// This rank's loop ends with an exception, which is thrown on afterwards. Others may go on: communicate nothing.
  virtual void on_exception(const std::exception& /*error*/) {}

  /// Saves and restores what the module has besides parameters and buffers, in checkpoints of fit and from ranks that
  /// were forked. Rank 0's is saved; every rank restores it, before on_train_start.
  virtual void save_state(CallbackState& /*state*/) const {}
  virtual void load_state(const CallbackState& /*state*/) {}
  /// The same for what each rank has of its own, in checkpoints; see Callback::save_rank_state.
  virtual void save_rank_state(CallbackState& /*state*/) const {}
  virtual void load_rank_state(const CallbackState& /*state*/) {}
};

}  // namespace cohort
