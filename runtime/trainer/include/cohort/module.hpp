// A model that the Trainer can train: a torch::nn::Module with its steps and its optimizers.
//
// Owned by the user; the Trainer borrows it. Hooks run on the thread of the training loop; under dp and ddp2 the steps
// run on replicas, each on a thread of its own with a piece of the batch, and everything else on the user's own module.
// The hooks around steps are in module_hooks.hpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include <c10/core/Stream.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/any_value.h>

#include <cohort/host/error.hpp>
#include <cohort/hyper_parameters.hpp>
#include <cohort/metrics.hpp>
#include <cohort/module_hooks.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/value.hpp>

namespace cohort {

class Callback;
class Metric;
class MetricBoard;
class MetricCollection;
class StepDriver;

namespace detail {
struct StepAccess;

/// Tells a module how far the loop that runs it is, and in which process.
struct ModulePlace {
  uint64_t step = 0;
  int64_t epoch = 0;
  std::optional<uint64_t> total_steps{};
  int rank = 0, world_size = 1;
  size_t loader = 0;
};
}  // namespace detail

class Module : public torch::nn::Module, public ModuleHooks {
 public:
  using torch::nn::Module::Module;

  /// Gives the loss: a scalar tensor that requires grad, or a map that holds it as "loss". `index` counts batches in
  /// the epoch.
  virtual Output training_step(const Batch& batch, int64_t index);
  /// Logs what is to be known about one batch; without gradients, in evaluation mode.
  virtual void validation_step(const Batch& batch, int64_t index);
  virtual void test_step(const Batch& batch, int64_t index);
  /// Returns what is wanted for each sample of the batch: tensors with one row for each, alone or in a list or map;
  /// without gradients, in evaluation mode.
  virtual Output predict_step(const Batch& batch, int64_t index);
  virtual Optimizers configure_optimizers();
  /// Gives callbacks of the module's own, which each fit has behind those of the program.
  virtual std::vector<std::shared_ptr<Callback>> configure_callbacks();

  /// Called after training_step under every strategy, with the list of what the replicas returned for their pieces of
  /// the batch, in order (a list of one where there is one replica). Gives the loss of the whole batch; gradients flow
  /// back to all replicas. Without an override the losses count by their samples.
  virtual Output training_step_end(const Output& outputs);
  /// The same for what validation_step and test_step gave to to_step_end; logs what concerns the whole batch.
  virtual void validation_step_end(const Output& outputs);
  virtual void test_step_end(const Output& outputs);
  /// In validation_step and test_step: what the hook of the whole batch is to see of this piece.
  void to_step_end(Output output) { for_step_end_ = std::move(output); }

  /// The batch, or a replica's piece of it, on the device; once for each replica. In training and evaluation the batch
  /// is in pinned memory, and this function copies it while the device is still busy with the step before.
  virtual Batch transfer_batch(const Batch& batch, c10::Device device);

  /// With several optimizers training_step is called once for each of them; this is the one, from 0.
  size_t phase() const { return phase_; }
  /// False: training_step runs the optimizers by hand, with manual_backward and step, and returns nothing.
  virtual bool automatic_optimization() const { return true; }
  /// Gradients of the loss for the parameters of one optimizer, averaged over the ranks.
  void manual_backward(const at::Tensor& loss, size_t optimizer = 0);
  /// That optimizer's step.
  void step(size_t optimizer = 0);
  /// In training: [world size, ...shape of the tensor], every process's tensor in rank order; gradients flow back to
  /// all of them. Under dp and ddp2 in training_step_end. Collective.
  at::Tensor all_gather(const at::Tensor& tensor);

  /// Optimizer steps that fit has done, those of earlier runs included if it was resumed; after fit, of that fit.
  uint64_t global_step() const { return place_.step; }
  /// From 0.
  int64_t current_epoch() const { return place_.epoch; }
  /// Returns the optimizer step at which the limits end fit; nothing for a stream without --max-steps. With
  /// --max-epochs it is known from on_fit_start on, or in the ranks alone if the strategy forks them.
  std::optional<uint64_t> total_steps() const { return place_.total_steps; }
  /// This process among those that train; rank 0 alone where ranks are forked and none runs.
  int rank() const { return place_.rank; }
  int world_size() const { return place_.world_size; }
  bool is_first() const { return rank() == 0; }
  /// In validation_step and test_step: which of several loaders the batch is from, from 0.
  size_t validation_loader() const { return place_.loader; }
  size_t test_loader() const { return place_.loader; }
  /// Returns the device of the parameters: of this replica, in a step. CPU for a module without parameters.
  c10::Device device() const;

  /// Remembers what the module was made from: call it in the constructor. Checkpoints hold it, loggers are shown it,
  /// and load_from_checkpoint makes a module from it. Throws UserError for a number that is not finite.
  void save_hyperparameters(HyperParameters parameters);
  const HyperParameters& hyperparameters() const { return hyperparameters_; }

  /// Records a value of the current batch. Nothing is read from the device here: values for `kStep` are read at the
  /// logging interval, means for `kEpoch` (weighted by the samples of each batch, over all ranks) at the end of the
  /// epoch. In evaluation everything is a mean. A value logged in on_train_epoch_end, or in the epoch_end of an
  /// evaluation, is one of the epoch's. Outside of these nothing is recorded, and a warning says so once.
  void log(std::string_view name, const at::Tensor& value, LogWhere where = LogWhere::kBoth);
  void log(std::string_view name, double value, LogWhere where = LogWhere::kBoth);
  void log(std::string_view name, const at::Scalar& value, LogWhere where = LogWhere::kBoth) {
    log(name, value.toDouble(), where);
  }
  void log(const Metrics& values, LogWhere where = LogWhere::kBoth);
  /// Throws UserError for a name that is there twice.
  void log(std::initializer_list<Metrics::value_type> values, LogWhere where = LogWhere::kBoth);
  /// The same with a weight of the value's own: a mean over tokens or nodes. Throws UserError below 0 samples.
  void log(std::string_view name, const at::Tensor& value, const LogOptions& options);
  void log(std::string_view name, double value, const LogOptions& options);
  /// Lets a metric count for the pass: at its end the states of all replicas and ranks become one, the value joins the
  /// means, and the metric is reset. Elements of a value of several have their indices behind the name: "recall_2".
  /// Call it in each step that updates the metric, in evaluation or training, where the pass is the epoch. There is no
  /// value of a step: of `where` only kBar may be added.
  void log(std::string_view name, Metric& metric, LogWhere where = LogWhere::kEpoch);
  /// The same for each metric of the collection, under `prefix` and its name.
  void log(std::string_view prefix, MetricCollection& metrics, LogWhere where = LogWhere::kEpoch);

  /// While it lives, log() of the module records on the board; made by the loops.
  class Recording {
   public:
    Recording(Module& module, MetricBoard* board);
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    Module& module_;
    MetricBoard* previous_;
    bool was_recorded_;
  };

 private:
  friend struct detail::StepAccess;
  void warn_unrecorded(std::string_view name);
  MetricBoard* board_ = nullptr;
  bool is_recorded_ = false;  // by a loop, which may have no board and drop the values
  bool has_warned_ = false;
  StepDriver* session_ = nullptr;           // of the fit that runs; clones have none
  std::optional<c10::Stream> copy_stream_;  // for batches, while a loop runs on a device
  size_t phase_ = 0;
  detail::ModulePlace place_;
  Output for_step_end_;
  HyperParameters hyperparameters_;
  bool inherits_step_end_ = false;  // the last hook called was the one of this class
};

namespace detail {

/// Keeps the default generator's state while a replica's random initial values are made and thrown away.
class GeneratorKeeper {
 public:
  GeneratorKeeper();
  ~GeneratorKeeper();
  GeneratorKeeper(const GeneratorKeeper&) = delete;
  GeneratorKeeper& operator=(const GeneratorKeeper&) = delete;

 private:
  at::Tensor state_;
};

/// Whether each submodule trains, parents before children; and back again.
std::vector<bool> training_modes(const torch::nn::Module& module);
void set_training_modes(torch::nn::Module& module, const std::vector<bool>& modes);

/// Gives `to` the parameters, buffers, requires_grad and mode of `from`, on `device` where one is given. Throws
/// UserError where the modules differ in names or shapes.
void copy_module_state(const torch::nn::Module& from, torch::nn::Module& to, const std::optional<at::Device>& device);

}  // namespace detail

/// A Module that can be cloned: `struct Net : cohort::ModuleFor<Net>`.
template <class Derived>
class ModuleFor : public Module {
 public:
  using Module::Module;

  /// A new module of the same shape; its values do not matter. Override where constructor arguments are needed.
  virtual std::shared_ptr<Derived> make() const {
    if constexpr (std::is_default_constructible_v<Derived>) {
      return std::make_shared<Derived>();
    } else {
      throw UserError("module '" + name() +
                      "' takes constructor arguments: override `make() const` so that it can be cloned");
    }
  }

  /// An equal module whose tensors are its own, on `device`. Draws nothing from the default generator.
  std::shared_ptr<torch::nn::Module> clone(const std::optional<at::Device>& device = std::nullopt) const override {
    const detail::GeneratorKeeper keeper;
    std::shared_ptr<Derived> replica = make();
    detail::copy_module_state(*this, *replica, device);
    return replica;
  }
};

}  // namespace cohort

/// Lets a Sequential take a batch, or an element of one, as its tensor.
template <>
struct torch::nn::AnyValue::Holder<cohort::Value> : Holder<at::Tensor> {
  explicit Holder(const cohort::Value& batch) : Holder<at::Tensor>(batch.tensor()) {}
};
template <>
struct torch::nn::AnyValue::Holder<cohort::Element> : Holder<cohort::Value> {
  using Holder<cohort::Value>::Holder;
};
