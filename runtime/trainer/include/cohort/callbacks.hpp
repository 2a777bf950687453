// The callbacks that come with cohort. Those that most trainings want have a flag as well.
//
//   auto stop = std::make_shared<cohort::EarlyStopping>("val_loss", cohort::EarlyStopping::Options{.patience = 3});
//   app.trainer({.callbacks = {stop}}).fit(net, data);
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/callback.hpp>
#include <cohort/mode.hpp>

namespace cohort {

/// The value of a metric that callbacks decide by: at the end of a validation if the validation measures it, else at
/// the end of an epoch.
class MonitoredMetric {
 public:
  /// `asked_by` begins messages: "--early-stopping".
  MonitoredMetric(std::string name, std::string asked_by) : name_(std::move(name)), asked_by_(std::move(asked_by)) {}

  const std::string& name() const { return name_; }
  AwaitedMetric awaited() const { return {name_, asked_by_}; }
  /// Call in on_validation_end. Returns the value if it was measured.
  std::optional<double> at_validation(const Metrics& means);
  /// Call in on_train_epoch_end. Returns the value unless the epoch's validation has given it. Throws UserError with
  /// the names that there are if nothing has ever measured it and the epoch is complete.
  std::optional<double> at_epoch(Fit& fit, const Metrics& means);
  /// Keeps and takes back what a resumed run needs within an epoch. Names in the state begin with `prefix`.
  void save_state(CallbackState& state, const std::string& prefix = "") const;
  void load_state(const CallbackState& state, const std::string& prefix = "");

 private:
  std::string name_, asked_by_;
  bool is_known_ = false, was_given_ = false;  // ever; since the epoch began
};

/// Ends training when a metric no longer improves. NaN and infinities end it at once.
class EarlyStopping final : public Callback {
 public:
  struct Options {
    int64_t patience = 3;  ///< values without improvement
    Mode mode = Mode::kMin;
    double min_delta = 0;  ///< a smaller change is no improvement
  };
  explicit EarlyStopping(std::string monitor) : EarlyStopping(std::move(monitor), Options()) {}
  /// `asked_by` begins messages. Throws UserError for options below 0.
  EarlyStopping(std::string monitor, Options options, std::string asked_by = "early stopping");

  double best() const { return best_; }  ///< NaN before the first value

  std::string name() const override { return "early_stopping"; }
  std::string settings() const override;
  std::vector<AwaitedMetric> awaited_metrics() const override { return {metric_.awaited()}; }
  void on_fit_start(Fit& fit) override;
  void on_validation_end(Fit& fit, const Metrics& means) override;
  void on_train_epoch_end(Fit& fit, const Metrics& means) override;
  void save_state(CallbackState& state) const override;
  void load_state(const CallbackState& state) override;

 private:
  void look_at(Fit& fit, double value);

  MonitoredMetric metric_;
  Options options_;
  double best_ = std::numeric_limits<double>::quiet_NaN();
  int64_t without_improvement_ = 0;
};

/// Keeps the checkpoints with the best values of a metric, in a folder of their own, where `best` links to the best.
class BestCheckpoints final : public Callback {
 public:
  struct Options {
    int64_t keep = 1;
    Mode mode = Mode::kMin;
    /// The name of a link to each of them, in which {step}, {epoch} and the metric's name stand for their values, in
    /// the notation of std::format: "epoch={epoch}-val_loss={val_loss:.3f}"; empty: there are no such links.
    std::string name{};
  };
  struct Kept {
    std::filesystem::path path;
    double value = 0;
  };
  struct Measured {
    double value = 0;
    int64_t epoch = 0;
  };
  BestCheckpoints(std::filesystem::path folder, std::string monitor)
      : BestCheckpoints(std::move(folder), std::move(monitor), Options()) {}
  BestCheckpoints(std::filesystem::path folder, std::string monitor, Options options,
                  std::string asked_by = "best checkpoints");

  /// Best first.
  const std::vector<Kept>& kept() const { return kept_; }

  std::string name() const override { return "best_checkpoints"; }
  std::vector<AwaitedMetric> awaited_metrics() const override { return {metric_.awaited()}; }
  void on_fit_start(Fit& fit) override;
  void on_validation_end(Fit& fit, const Metrics& means) override;
  void on_train_epoch_end(Fit& fit, const Metrics& means) override;
  void on_save_point(Fit& fit, SavePoint point) override;
  void save_state(CallbackState& state) const override;
  void load_state(const CallbackState& state) override;

 private:
  bool is_better(double one, double other) const { return options_.mode == Mode::kMin ? one < other : one > other; }

  std::filesystem::path folder_;
  MonitoredMetric metric_;
  Options options_;
  std::optional<Measured> measured_;  // of the present weights, not saved yet
  std::vector<Kept> kept_;
};

/// If training ends with an exception: writes a checkpoint of the last step that was complete, from which --resume goes
/// on with the step that has failed, and with the random numbers from before it. What a forward pass of the failed step
/// has changed in buffers stays changed. Nothing is written, and a warning says so, if weights have changed since the
/// last step was complete: within a step of an optimizer, or in a hook behind it. For trainings of one rank: fit throws
/// UserError for more.
class OnExceptionCheckpoint final : public Callback {
 public:
  /// The folder may be that of --checkpoint-dir. A program's n-th fit uses folder/fit-n.
  explicit OnExceptionCheckpoint(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::string name() const override { return "on_exception_checkpoint"; }
  void on_fit_start(Fit& fit) override { fit.keep_steps(); }
  void on_exception(Fit& fit, const std::exception& error) override;

 private:
  std::filesystem::path folder_;
};

/// Trains parts of a module from a later epoch on: until then their parameters are frozen.
///
///   // The head trains at once, layer4 from epoch 2 on, the rest of the backbone from epoch 5 on.
///   GradualUnfreezing({{"backbone.layer4", 2}, {"backbone", 5}})
class GradualUnfreezing final : public Callback {
 public:
  /// By the name of a parameter or submodule: the first epoch that trains it. The longest name that fits counts. Throws
  /// UserError for an epoch below 0; fit throws it for a name that the module does not have.
  explicit GradualUnfreezing(std::map<std::string, int64_t> epochs);
  /// Throws UserError for a name that is there twice, as well.
  GradualUnfreezing(std::initializer_list<std::pair<const std::string, int64_t>> epochs);

  std::string name() const override { return "gradual_unfreezing"; }
  void on_fit_start(Fit& fit) override;
  void on_train_epoch_start(Fit& fit) override;

 private:
  std::map<std::string, int64_t> epochs_;
};

/// Logs the norm over all gradients of each optimizer before they are clipped, at the logging interval: "grad_norm";
/// "grad_norm-generator" and "grad_norm-1" as LearningRateMonitor.
class GradientNorm final : public Callback {
 public:
  /// The p-norm; infinity: the largest magnitude. Throws UserError unless p > 0.
  explicit GradientNorm(double p = 2);

  std::string name() const override { return "gradient_norm"; }
  void on_before_optimizer_step(Fit& fit, size_t optimizer) override;

 private:
  double p_;
};

/// Averages the weights over steps. The average begins with the weights after the first step; each later step sets
/// average = decay * average + (1 - decay) * weights. Validation uses the average, a checkpoint has it under the names
/// of the parameters, and the module holds it after fit. Each rank averages its own weights.
class WeightAverage final : public Callback {
 public:
  struct Options {
    bool buffers = false;  ///< floating buffers are averaged too; else those of the last step are used
  };
  /// `decay` in [0, 1). Throws UserError for another one.
  explicit WeightAverage(double decay) : WeightAverage(decay, Options()) {}
  WeightAverage(double decay, Options options);

  /// In the order of the module's parameters, and then of its averaged buffers; empty before the first step.
  const std::vector<at::Tensor>& average() const { return average_; }

  std::string name() const override { return "weight_average"; }
  void on_fit_start(Fit& fit) override;
  void on_step_end(Fit& fit) override;
  void on_validation_start(Fit& fit) override;
  void on_validation_end(Fit& fit, const Metrics& means) override;
  void on_validation_abandoned(Fit& fit) override;
  void on_fit_end(Fit& fit) override;
  void load_state(const CallbackState& state) override;  // of checkpoints up to format 2
  NamedTensors validated_weights() const override;
  bool load_validated_weights(const NamedTensors& weights) override;

 private:
  std::vector<at::Tensor> in_module(Fit& fit) const;
  void restore(std::vector<std::string> names, std::vector<at::Tensor> average);

  double decay_;
  Options options_;
  std::vector<std::string> names_;  // of average_
  std::vector<at::Tensor> average_;
  std::vector<at::Tensor> weights_;    // that are trained, within a fit
  std::vector<at::Tensor> set_aside_;  // tensors of the module, while the average is validated
};

}  // namespace cohort
