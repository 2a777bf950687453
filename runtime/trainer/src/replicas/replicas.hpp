// The model and its clones in this process: runs the steps of a module on the pieces of a batch.
//
// With one replica there are no clones, threads or pieces, unless --pieces asks for pieces: then a batch is trained one
// piece after another, each by all replicas. Clones are made once and live as long as this object; on the
// CPU they use the weights of the user's module (see TensorModel), which is replica 0. Belongs to the thread of the
// loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cohort/module.hpp>
#include <cohort/runtime.hpp>
#include <cohort/step_driver.hpp>

#include "copies/replica_threads.hpp"
#include "copies/scatter.hpp"
#include "failure/hook_place.hpp"
#include "metrics/metric_board.hpp"
#include "metrics/piece_boards.hpp"
#include "module/pass_hooks.hpp"
#include "module/step_access.hpp"
#include "module/unregistered_leaves.hpp"
#include "parts/device_watches.hpp"
#include "parts/pipeline.hpp"
#include "profile/profile.hpp"
#include "replicas/piece_count.hpp"
#include "replicas/step_memory.hpp"

namespace cohort {

class Replicas {
 public:
  /// Throws UserError where the strategy wants clones and the module cannot be cloned, or steps by hand. `profile` is
  /// that of a training, or null.
  Replicas(Runtime& runtime, Module& module, Profile* profile = nullptr);
  ~Replicas();
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  /// The user's module first.
  std::span<torch::nn::Module* const> modules() const { return bare_; }
  Module& module() const { return *modules_[0]; }
  size_t count() const { return modules_.size(); }
  /// Every replica gets replica 0's mode, submodule by submodule.
  void follow_modes();

  /// Cuts the model into parts before the first step, if the strategy has any. Collective then: call it in each step,
  /// before it begins. `batch` may be null but on the first rank.
  void prepare(StepDriver& session, const Batch* batch);
  /// Logs what the parts of the model have taken, if it has any and something has measured it.
  void log_parts() const {
    const std::string table = pipeline_ && runtime_.is_first() ? pipeline_->table() : "";
    if (!table.empty()) runtime_.log().info(table);
  }
  /// Forward and backward of one phase of a micro-batch whose step has begun, up to session.end_backward. Gives the
  /// loss of the whole batch, detached, before it was multiplied by `scale`.
  at::Tensor train(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index, double scale);
  /// The batch on the device of the only replica.
  Batch transfer(const Batch& batch, int64_t index, size_t replica = 0);
  /// As train() with one replica, of a batch that is there already.
  at::Tensor train_there(StepDriver& session, const Batch& there, int64_t index);
  /// Throws UserError after the first step if its loss depends on weights that are not registered.
  void check_registered();
  /// training_step of a module that steps by hand.
  void train_by_hand(const Batch& batch, int64_t index);

  /// A step that needs no gradients, with its hook of the whole batch.
  struct Evaluation {
    void (Module::*step)(const Batch&, int64_t);
    void (Module::*step_end)(const Output&);
    const char *step_name, *step_end_name;
    const PassHooks& hooks;
  };
  static constexpr Evaluation kValidation{&Module::validation_step, &Module::validation_step_end, "validation_step",
                                          "validation_step_end", kValidationHooks};
  static constexpr Evaluation kTest{&Module::test_step, &Module::test_step_end, "test_step", "test_step_end",
                                    kTestHooks};
  void evaluate(const Evaluation& what, MetricBoard& board, const Batch& batch, int64_t index);
  /// Returns what predict_step returns for each piece of the batch, in order, and how many samples each has.
  std::vector<std::pair<Output, int64_t>> predict(const Batch& batch, int64_t index);

 private:
  Runtime& runtime_;
  Profile* profile_;
  std::vector<std::shared_ptr<Module>> clones_;
  std::vector<Module*> modules_;                                   // replica 0 is the user's
  std::vector<torch::nn::Module*> bare_;                           // the same
  PieceCount pieces_;                                              // of a batch that is trained
  StepMemory before_;                                              // a step, with --pieces=auto
  std::deque<detail::StepAccess::Copying> copying_;                // on devices
  std::unique_ptr<Pipeline> pipeline_;                             // of a training in parts
  std::unique_ptr<ReplicaThreads> threads_;                        // null where replicas run in turn
  std::optional<PartDevices> devices_;                             // of a model in parts
  std::optional<bool> has_training_end_;                           // known after the first step
  bool has_cut_ = false;                                           // a batch for replicas
  std::optional<UnregisteredLeaves> unregistered_{std::in_place};  // until the first step is done
  std::mutex noting_roots_;

  void clone(Module& module);
  void give_copy_stream(size_t replica);
  /// Returns whether a hook would need less memory if its batch were trained in more pieces, which it can be.
  bool would_more_pieces_do(std::string_view hook, const Batch* batch) const;
  /// Returns the place of a hook that is called for batch `index`.
  HookPlace place(const char* hook, int64_t index, size_t replica = 0, const Batch* batch = nullptr) const;
  /// Returns the batch on the replica's device, as its module puts it there.
  Batch on_device(Module& module, const Batch& batch, size_t replica, int64_t index);
  /// Returns a watch of a step without gradients, if the model lies on several devices.
  std::optional<NearWeights> near_weights() const;
  Output training_step(const Batch& there, size_t replica, int64_t index);
  Pipeline::Calls calls_of_pieces();
  void note_roots(const std::vector<at::Tensor>& roots);
  /// Returns whether the module has a training_step_end, and if so what it gives in `whole`.
  bool training_step_end(const Output& outputs, int64_t index, Output& whole);
  /// Marks a phase of a replica; the table has those of the first.
  Timed timed(Profile::Row phase, size_t replica) const { return Timed(profile_, phase, replica == 0); }
  /// Runs backward of what training_step has returned for batch `index`.
  void run_backward(StepDriver& session, const at::Tensor& loss, double scale, size_t replica, int64_t index);
  void note_backward(const StepDriver& session, const at::Tensor& loss);
  BatchPieces cut_for_replicas(const Batch& batch);
  at::Tensor train_once(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index, double scale);
  /// Prepares another attempt at a batch in more pieces, after `failure`. Returns false if none can help.
  bool take_more_pieces(StepDriver& session, const std::exception& failure, int64_t index);
  /// Returns the journal of changes to metric objects; null without --pieces=auto.
  LoggedMetrics::Journal* journal() { return pieces_.is_auto() ? &before_.metrics() : nullptr; }
  at::Tensor train_in_parts(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index, double scale);
  at::Tensor train_in_pieces(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index, double scale);
  at::Tensor train_whole(StepDriver& session, MetricBoard* board, const Batch& batch, int64_t index, double scale);
  void run(const BatchPieces& pieces, MetricBoard* board, const std::function<void(size_t)>& work);
  static void run_in_turn(size_t count, const std::function<void(size_t)>& work);
  Output train_piece(const BatchPieces& pieces, size_t replica, int64_t index);
  at::Tensor train_alone(StepDriver& session, Output output, int64_t index, double scale);
  at::Tensor train_by_losses(StepDriver& session, MetricBoard* board, const BatchPieces& pieces, int64_t index,
                             double scale);
  at::Tensor train_by_hook(StepDriver& session, MetricBoard* board, const BatchPieces& pieces, int64_t index,
                           double scale);
  at::Tensor backward_of_losses(StepDriver& session, const BatchPieces& pieces, std::span<const Output> outputs,
                                int64_t index, double scale);
};

}  // namespace cohort
