// What the training loop of one rank has to know to go on, besides weights and optimizer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/callback.hpp>
#include <cohort/metrics.hpp>
#include <cohort/safetensors.hpp>

#include "checkpoint/manifest.hpp"
#include "checkpoint/tensor_index.hpp"
#include "metrics/metric_board.hpp"

namespace cohort {

struct LoopState {
  LoopPlace place;
  std::optional<TrainingEnd> end{};   ///< for the manifest: this is the end of the training
  at::Tensor generator;               ///< state of the default generator
  NamedTensors device_generators;     ///< states of those of the devices; empty: those of the moment are written
  at::Tensor generator_before_ahead;  ///< before data was read ahead of this state; may be undefined
  CallbackState stream;  ///< what this rank's stream of training data has saved, before data was read ahead
  std::vector<MetricRecord> records;          ///< of the epoch so far
  NamedTensors metric_states;                 ///< of the metric objects of the epoch so far
  Metrics metric_values;                      ///< of these objects, if no step of the epoch is left
  Metrics validation_means;                   ///< of this epoch
  Metrics latest;                             ///< of the whole run, for its summary
  std::vector<OptimizerSettings> optimizers;  ///< which a checkpoint's manifest holds
  NamedTensors callbacks;                     ///< their states and the module's, see CallbackList
};

constexpr std::string_view kCallbackPrefix = "cohort.callbacks/";
constexpr std::string_view kModulePrefix = "cohort.module/";
/// Each rank's own, in its file; of the second kind the mean over ranks does for another number of ranks. What follows
/// is the name of the callback, empty for the module, and that of the value.
constexpr std::string_view kOwnStatePrefix = "cohort.rank/";
constexpr std::string_view kOwnMeanPrefix = "cohort.rank_mean/";
/// Weights that are validated in place of the trained ones. In files they have no prefix, and the trained ones have the
/// second.
constexpr std::string_view kValidatedPrefix = "cohort.validated/";
constexpr std::string_view kTrainedPrefix = "cohort.trained/";
inline bool is_state_of_callbacks(std::string_view name) {
  return name.starts_with(kCallbackPrefix) || name.starts_with(kModulePrefix);
}
inline bool is_state_of_rank(std::string_view name) {
  return name.starts_with(kOwnStatePrefix) || name.starts_with(kOwnMeanPrefix);
}
/// Returns the name of the trained weight in a file that has the validated one under the name of the parameter.
inline std::string trained_name(const std::string& name) {
  return std::string(kTrainedPrefix) + name;
}
/// Returns whether the tensor of a file belongs to the run, and not to its model or optimizers.
inline bool is_of_the_run(std::string_view name) {
  return name.starts_with("cohort.") && !name.starts_with(kTrainedPrefix);
}
constexpr std::string_view kOptimizerPrefix = "optimizer.";
/// Returns the tensors of the list with this prefix, without it.
NamedTensors with_prefix(const NamedTensors& tensors, std::string_view prefix);

/// As tensors of the rank's file; everything but the place, the end, the callbacks and the settings of optimizers.
NamedTensors loop_tensors(const LoopState& state);
/// Leaves out what a rank knows of the metrics of the epoch so far.
void drop_epoch_metrics(TensorIndex& tensors);
/// Adds what the file of another rank has of the metrics of the epoch so far: this rank goes on for both. `name` tells
/// parts of metric states apart. Throws UserError, beginning with `file`, for a record that is none.
void add_epoch_metrics(TensorIndex& own, const TensorIndex& other, const std::string& name, const std::string& file);
/// And back. Throws UserError, beginning with `file`, where something is missing.
LoopState read_loop_state(const LoopPlace& place, const TensorIndex& tensors, const std::string& file);

}  // namespace cohort
