// Code beside the model that takes part in a training: it sees each moment of it, and may log, save and stop.
//
//   struct Greeter : cohort::Callback {
//     std::string name() const override { return "greeter"; }
//     void on_train_epoch_end(cohort::Fit& fit, const cohort::Metrics& means) override {
//       fit.runtime().log().info("epoch " + std::to_string(fit.epoch()) + ": " +
//       std::to_string(means.at("train_loss")));
//     }
//   };
//   app.trainer({.max_epochs = 3, .callbacks = {std::make_shared<Greeter>()}}).fit(net, data);
//
// Every rank has its own callbacks, which are called in the order given, on the thread of the loop; where the strategy
// forks its ranks they run in the forks, and the caller's become as rank 0 left them. A moment that communicates has to
// do so on every rank. What a callback throws ends the training.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/metrics.hpp>
#include <cohort/safetensors.hpp>
#include <cohort/step_moments.hpp>
#include <cohort/value.hpp>

namespace cohort {

class Module;
class Optimizers;
class Runtime;

/// Values of one step by name, in the order of their columns.
using StepValues = std::vector<std::pair<std::string, double>>;

/// Why training ends early. Of several ranks' reasons the most severe counts, then the earliest, then the lowest
/// rank's: what came first has caused the others.
struct StopReason {
  enum class Severity : int {
    kNone = 0,
    kEnd = 1,        ///< a limit: the validation and the end of the epoch follow, then fit returns
    kInterrupt = 2,  ///< a signal: a checkpoint is written, then fit throws Interrupted
    kFailure = 3,    ///< the state is not worth keeping: fit throws StoppedTogether with the text
  };
  Severity severity = Severity::kNone;
  std::string exit_reason{};  ///< for the summary: "early_stopping"
  std::string text{};         ///< completes "Training ends after step N: ..."; one line
  int signal = 0;             ///< of kInterrupt
  /// Whether an end (kEnd) stands for later runs as well: --resume trains nothing more until the callback that has
  /// ended the training is gone or has other settings(). After an end that is not final, as by --max-time, a run
  /// resumes.
  bool is_final = true;
  int rank = 0;            ///< the rank that has given the reason; set by the loop
  uint64_t step = 0;       ///< after how many steps it came up; set by the loop
  std::string callback{};  ///< that has asked for it, empty for the module and the loop; set by the loop

  bool is_none() const { return severity == Severity::kNone; }
  /// Returns whether nothing may follow the step, neither validation nor hooks.
  bool is_abrupt() const { return severity >= Severity::kInterrupt; }
};

/// A training that runs, as its callbacks see it. [loop thread]
class Fit {
 public:
  virtual ~Fit() = default;

  virtual uint64_t step() const = 0;  ///< optimizer steps done, over all resumed runs
  virtual int64_t epoch() const = 0;  ///< from 0
  virtual int64_t batch() const = 0;  ///< batches of this epoch that are done, by the rank that has had most of them
  virtual std::optional<int64_t> batches_per_epoch() const = 0;  ///< up to the end on all ranks; unknown for a stream
  /// Returns whether no step of the epoch follows: its data is at its end on all ranks, or training stops.
  virtual bool is_epoch_over() = 0;
  virtual std::optional<uint64_t> total_steps() const = 0;  ///< at which a limit ends training, if it is known
  virtual std::optional<int64_t> total_epochs() const = 0;  ///< the limit, if there is one
  virtual const Metrics& metrics() const = 0;               ///< the latest value of each name
  /// Returns the latest values of names that are logged with LogWhere::kBar, and the loss of the step of the last
  /// logging interval as "loss" if there is one optimizer; nothing if no name is logged so.
  virtual Metrics bar_values() const = 0;
  virtual Module& module() = 0;
  virtual const Optimizers& optimizers() = 0;
  virtual Runtime& runtime() = 0;
  /// Returns the float32 weights that are trained, if a parameter of the module is a rounded copy of them
  /// (--precision=16-true); else the parameter.
  virtual const at::Tensor& weights_of(const at::Tensor& parameter) { return parameter; }
  /// Returns the p-norm (p > 0, or infinite) over all gradients of an optimizer, for on_before_optimizer_step alone.
  /// Waits for the device. Collective.
  virtual double gradient_norm(size_t optimizer, double p = 2) = 0;

  /// Why training ends, as all ranks have agreed; none while it goes on, and if it comes to its own end.
  virtual const StopReason& stop_reason() const = 0;

  /// Adds a value to those of the current step, as Module::log does for LogWhere::kStep.
  virtual void log(std::string_view name, double value) = 0;
  /// Asks for the end of training. It takes effect on all ranks together: after the step that is being taken, or after
  /// the validation or epoch that has just ended. A reason without a severity is an end.
  virtual void stop(StopReason reason) = 0;
  /// Writes a checkpoint into this folder, from which --resume continues; for on_save_point alone. Of the folder's
  /// checkpoints the newest `keep` stay, or all. Returns its path, or nothing if this state is not worth keeping (a
  /// loss is not finite). Its files are written beside training: the checkpoint is there when `when_written` is called,
  /// on rank 0, maybe in a thread of its own. An error of that ends the training at the next checkpoint, or at the end
  /// of fit, which wait for it. Collective.
  /// After keep_steps it may be called in on_exception too: it writes the state in which the last step has left the
  /// training, and returns when the files are there; nothing if no step is done, or if weights have changed since.
  virtual std::optional<std::filesystem::path> save(const std::filesystem::path& folder,
                                                    std::optional<int64_t> keep = std::nullopt,
                                                    std::function<void()> when_written = {}) = 0;
  /// Makes and locks a folder for save, so that one that cannot be used is found before the training: for on_fit_start.
  /// Collective. Throws UserError.
  virtual void open(const std::filesystem::path& folder) = 0;
  /// Keeps from now on what save needs in on_exception: at the beginning of each step the states of random numbers,
  /// metrics, callbacks and settings of optimizers. For on_fit_start. Throws UserError if there are several ranks,
  /// because one that fails takes its part of a checkpoint with it.
  virtual void keep_steps() = 0;
};

/// Holds the state of a callback, or of a module, for checkpoints: numbers, texts and tensors by name. Names are free
/// of '/'.
class CallbackState {
 public:
  void set(const std::string& name, at::Tensor value) {
    tensors_[name] = std::move(value);
    means_.erase(name);
  }
  void set(const std::string& name, double value);
  void set(const std::string& name, std::string_view text);
  /// For save_rank_state: the same as set(name, value), and the mean over ranks does for another number of ranks.
  /// Throws UserError unless the tensor holds floating numbers.
  void set_mean(const std::string& name, at::Tensor value);
  bool has(const std::string& name) const { return tensors_.contains(name); }
  /// Throws UserError, naming the value, if it is missing or of another kind.
  const at::Tensor& tensor(const std::string& name) const;
  double number(const std::string& name) const;
  std::string text(const std::string& name) const;
  const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }
  bool has_mean(const std::string& name) const { return means_.contains(name); }

 private:
  std::map<std::string, at::Tensor> tensors_;
  std::set<std::string> means_;
};

/// A moment from which a later run can resume.
enum class SavePoint {
  kStep,     ///< between two steps of an epoch
  kEpoch,    ///< between two epochs
  kStopped,  ///< training stops within an epoch
};

/// A metric on which a callback decides; `asked_by` begins messages about it: "--early-stopping".
struct AwaitedMetric {
  std::string name, asked_by;
};

class Callback : public StepMoments {
 public:
  virtual ~Callback() = default;

  /// Names the callback's state in checkpoints, and the callback in messages: letters, digits, '_' and '-'.
  virtual std::string name() const = 0;
  /// Returns what the callback decides by, as text on one line. A training that it has ended (Fit::stop) is resumed by
  /// --resume only if this text has changed.
  virtual std::string settings() const { return {}; }

  /// A resumed training stands where it was left: load_state has been called.
  virtual void on_fit_start(Fit& /*fit*/) {}
  virtual void on_fit_end(Fit& /*fit*/) {}
  virtual void on_train_epoch_start(Fit& /*fit*/) {}
  /// After the validation of the epoch. `means` are those of the epoch and of its last validation, over all ranks.
  virtual void on_train_epoch_end(Fit& /*fit*/, const Metrics& /*means*/) {}
  /// On ranks that have a batch: under --uneven=join a rank may take a step without one.
  virtual void on_train_batch_start(Fit& /*fit*/, const Batch& /*batch*/) {}
  virtual void on_train_batch_end(Fit& /*fit*/, const Batch& /*batch*/) {}
  /// Before the ranks agree on whether this step is the last: in each step and each batch of a validation, and where an
  /// epoch ends.
  virtual void on_vote(Fit& /*fit*/) {}
  /// See the hooks of the same names in module_hooks.hpp. None of the four goes with --graph.
  virtual void on_before_backward(Fit& /*fit*/, const at::Tensor& /*loss*/) { note_empty(kBeforeBackward); }
  virtual void on_after_backward(Fit& /*fit*/) { note_empty(kAfterBackward); }
  /// Gradients of the optimizer are averaged over the ranks, and not clipped yet.
  virtual void on_before_optimizer_step(Fit& /*fit*/, size_t /*optimizer*/) { note_empty(kBeforeOptimizerStep); }
  virtual void on_before_zero_grad(Fit& /*fit*/, size_t /*optimizer*/) { note_empty(kBeforeZeroGrad); }
  /// After the step of the last optimizer.
  virtual void on_step_end(Fit& /*fit*/) {}
  /// At the logging interval, and at the end of an epoch. Values that are added are logged as well.
  virtual void on_step_values(Fit& /*fit*/, StepValues& /*values*/) {}
  virtual void on_validation_start(Fit& /*fit*/) {}
  /// `means` is empty if a signal has ended it, or if the module has no validation_step.
  virtual void on_validation_end(Fit& /*fit*/, const Metrics& /*means*/) {}
  /// The validation has failed on this rank: put back what on_validation_start has changed, and communicate nothing.
  virtual void on_validation_abandoned(Fit& /*fit*/) {}
  /// Returns the metrics that the callback decides by. After the first step a name that nobody has logged is refused if
  /// it is nearly one that was; else a warning names it.
  virtual std::vector<AwaitedMetric> awaited_metrics() const { return {}; }
  /// Fit::save may be called.
  virtual void on_save_point(Fit& /*fit*/, SavePoint /*point*/) {}
  /// See the module's hook of this name.
  virtual void on_exception(Fit& /*fit*/, const std::exception& /*error*/) {}

  /// Saves and restores the state that a resumed run needs. Rank 0's is saved; every rank restores it.
  virtual void save_state(CallbackState& /*state*/) const {}
  virtual void load_state(const CallbackState& /*state*/) {}
  /// Saves and restores what each rank has of its own; called after load_state. A run of another number of ranks gets
  /// the mean over ranks of what CallbackState::set_mean has set, and is refused if there is anything else.
  virtual void save_rank_state(CallbackState& /*state*/) const {}
  virtual void load_rank_state(const CallbackState& /*state*/) {}
  /// Returns copies of the weights that this callback has validated in place of the trained ones: all parameters that
  /// train and any other tensors of the module, by their names there; empty: the trained ones are validated.
  /// Checkpoints have them under these names, and the trained ones as "cohort.trained/NAME".
  virtual NamedTensors validated_weights() const { return {}; }
  /// Restores them, in any order. Returns false if this callback does not validate weights of its own.
  virtual bool load_validated_weights(const NamedTensors& /*weights*/) { return false; }
};

}  // namespace cohort
