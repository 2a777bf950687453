// The model and its clones in this process: runs the steps of a module on the pieces of a batch.
//
// With one replica there are no clones, threads or pieces. Clones are made once and live as long as this object; on the
// CPU they use the weights of the user's module (see TensorModel), which is replica 0. Belongs to the thread of the
// loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cohort/module.hpp>
#include <cohort/runtime.hpp>
#include <cohort/step_driver.hpp>

#include "metrics/metric_board.hpp"
#include "module/step_access.hpp"
#include "replicas/replica_threads.hpp"

namespace cohort {

class Replicas {
 public:
  /// Throws UserError where the strategy wants clones and the module cannot be cloned, or steps by hand.
  Replicas(Runtime& runtime, Module& module);
  ~Replicas();
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  /// The user's module first.
  std::span<torch::nn::Module* const> modules() const { return bare_; }
  Module& module() const { return *modules_[0]; }
  size_t count() const { return modules_.size(); }
  /// Every replica gets replica 0's mode, submodule by submodule.
  void follow_modes();

  /// Forward and backward of one phase of a micro-batch whose step has begun, up to session.end_backward. Gives the
  /// loss of the whole batch, detached, before it was multiplied by `scale`.
  at::Tensor train(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index, double scale);
  /// training_step of a module that steps by hand.
  void train_by_hand(const Batch& batch, int64_t index);

  /// A step that needs no gradients, with its hook of the whole batch.
  struct Evaluation {
    void (Module::*step)(const Batch&, int64_t);
    void (Module::*step_end)(const Output&);
  };
  void evaluate(const Evaluation& what, MetricBoard& board, const Batch& batch, int64_t index);
  /// Returns what predict_step returns for each piece of the batch, in order, and how many samples each has.
  std::vector<std::pair<Output, int64_t>> predict(const Batch& batch, int64_t index);

 private:
  struct Pieces {
    std::vector<int64_t> sizes;
    std::vector<Batch> batches;
    double share(size_t piece) const;  // of the batch's samples
  };

  Runtime& runtime_;
  std::vector<std::shared_ptr<torch::nn::Module>> clones_;
  std::vector<Module*> modules_;                     // replica 0 is the user's
  std::vector<torch::nn::Module*> bare_;             // the same
  std::vector<MetricBoard> boards_;                  // by replica, of one batch
  std::deque<detail::StepAccess::Copying> copying_;  // on devices
  std::unique_ptr<ReplicaThreads> threads_;          // null where replicas run in turn
  std::optional<bool> has_training_end_;             // known after the first step
  bool has_cut_ = false;                             // a batch

  void clone(Module& module);
  void give_copy_stream(size_t replica);
  /// Returns the batch on the replica's device, as its module puts it there.
  Batch transfer(const Batch& batch, size_t replica);
  Pieces cut(const Batch& batch);
  void run(const Pieces& pieces, MetricBoard* board, const std::function<void(size_t)>& work);
  static void run_in_turn(size_t count, const std::function<void(size_t)>& work);
  Output train_piece(const Pieces& pieces, size_t replica, int64_t index);
  at::Tensor train_alone(StepDriver& session, const Batch& batch, int64_t index, double scale);
  at::Tensor train_by_losses(StepDriver& session, MetricBoard* board, const Pieces& pieces, int64_t index,
                             double scale);
  at::Tensor train_by_hook(StepDriver& session, MetricBoard* board, const Pieces& pieces, int64_t index, double scale);
  at::Tensor backward_of_losses(StepDriver& session, const Pieces& pieces, std::span<const Output> outputs,
                                double scale);
};

}  // namespace cohort
