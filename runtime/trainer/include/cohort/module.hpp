// A model that the Trainer can train: a torch::nn::Module with its steps and its optimizers.
//
// Owned by the user; the Trainer borrows it. Hooks run on the thread of the training loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include <torch/nn/module.h>

#include <cohort/host/error.hpp>
#include <cohort/metrics.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/value.hpp>

namespace cohort {

class MetricBoard;

class Module : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;

  /// Gives the loss: a scalar tensor that requires grad, or a map that holds it as "loss". `index` counts batches in
  /// the epoch.
  virtual Output training_step(const Batch& batch, int64_t index);
  /// Logs what is to be known about one batch; without gradients, in evaluation mode.
  virtual void validation_step(const Batch& batch, int64_t index);
  virtual void test_step(const Batch& batch, int64_t index);
  virtual Optimizers configure_optimizers();

  virtual void on_fit_start() {}
  virtual void on_fit_end() {}
  virtual void on_train_epoch_start(int64_t /*epoch*/) {}
  virtual void on_train_epoch_end(int64_t /*epoch*/) {}

  /// Records a value of the current batch. Nothing is read from the device here: values for `kStep` are read at the
  /// logging interval, means for `kEpoch` (weighted by the samples of each batch, over all ranks) at the end of the
  /// epoch. In evaluation everything is a mean. Outside of a Trainer's loop nothing is recorded.
  void log(std::string_view name, const at::Tensor& value, LogWhere where = LogWhere::kBoth);
  void log(std::string_view name, double value, LogWhere where = LogWhere::kBoth);

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
  };

 private:
  MetricBoard* board_ = nullptr;
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
