// The state of a training as named tensors, for checkpoints and for the caller of forked ranks. A name is a path: each
// part of a training writes into a section of its own, and reads there. The section decides the policy of an entry.
//
//   const StateWriter state(tensors);
//   state.in(kLatestSection).put("val_loss", 0.5);                 // "cohort.metrics.latest/val_loss"
//   StateReader(index, file).in(kLatestSection).metrics()          // {{"val_loss", 0.5}}
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/callback.hpp>
#include <cohort/metrics.hpp>
#include <cohort/safetensors.hpp>

#include "state/tensor_index.hpp"

namespace cohort {

/// The owner of an entry, and its use by a run of another number of ranks.
enum class StatePolicy {
  kModel,      ///< weights and buffers by their own names: of all ranks alike, or their mean
  kTrained,    ///< as kModel; a trained weight, if the model has a validated one under its name
  kOptimizer,  ///< as kModel; or owned by one rank
  kStrategy,   ///< of a layer, which says whether it is shared
  kShared,     ///< rank 0's, for all ranks
  kCompared,   ///< as kShared; rank 0 warns if ranks differ
  kValidated,  ///< each rank's weights, which become the model's in a file
  kRank,       ///< each rank's own; an added rank takes that of another
  kTied,       ///< each rank's own; another number of ranks is refused
  kMean,       ///< each rank's own; another number of ranks takes the mean
  kAdded,      ///< each rank's own; divided among another number of ranks, and added on a rank that gets several
};
StatePolicy policy_of(std::string_view name);
/// Returns whether an entry belongs to the run, and not to its model or optimizers.
bool is_of_the_run(std::string_view name);

constexpr std::string_view kCallbackSection = "cohort.callbacks";  ///< has a section for each callback
constexpr std::string_view kModuleSection = "cohort.module";
constexpr std::string_view kTiedSection = "cohort.rank";       ///< has a section for each callback, "" for the module
constexpr std::string_view kMeanSection = "cohort.rank_mean";  ///< the same
constexpr std::string_view kValidatedSection = "cohort.validated";
constexpr std::string_view kTrainedSection = "cohort.trained";
constexpr std::string_view kStreamSection = "cohort.stream";
constexpr std::string_view kEpochSection = "cohort.metrics.epoch";
constexpr std::string_view kMetricStateSection = "cohort.metrics.state";
constexpr std::string_view kMetricValueSection = "cohort.metrics.value";
constexpr std::string_view kValidationSection = "cohort.metrics.validation";
constexpr std::string_view kLatestSection = "cohort.metrics.latest";
constexpr std::string_view kLayerBufferSection = "cohort.state";  ///< has a section for each buffer
constexpr std::string_view kLayerValueSection = "cohort.strategy";

/// Returns the name of the trained weight in a file that has the validated one under the name of the parameter.
std::string trained_name(std::string_view parameter);

/// Writes entries of one section. Borrows `tensors`.
class StateWriter {
 public:
  explicit StateWriter(NamedTensors& tensors) : StateWriter(tensors, "") {}
  StateWriter in(std::string_view section) const { return {tensors_, path_ + std::string(section) + "/"}; }

  void put(std::string_view name, at::Tensor tensor) const;
  void put(std::string_view name, double number) const;
  /// Writes pairs of a name and a tensor or number.
  template <class Entries>
  void put_all(const Entries& entries) const {
    for (const auto& [name, value] : entries) put(name, value);
  }

 private:
  StateWriter(NamedTensors& tensors, std::string path) : tensors_(tensors), path_(std::move(path)) {}

  NamedTensors& tensors_;
  std::string path_;
};

/// Reads entries of one section. Borrows `tensors`; `file` begins messages.
class StateReader {
 public:
  StateReader(const TensorIndex& tensors, std::string file) : StateReader(tensors, std::move(file), "") {}
  StateReader in(std::string_view section) const { return {tensors_, file_, path_ + std::string(section) + "/"}; }
  const std::string& file() const { return file_; }

  /// Returns null if there is no such entry.
  const at::Tensor* find(std::string_view name) const { return find_tensor(tensors_, path_ + std::string(name)); }
  /// Returns the entry. Throws UserError if the section has none of this name.
  const at::Tensor& at(std::string_view name) const;
  /// Returns the entry's float64 numbers. Throws UserError if it does not have `count`.
  const double* numbers(std::string_view name, int64_t count) const;

  /// Returns the entries of the section and of those in it, by their names within it.
  NamedTensors tensors() const;
  CallbackState values() const;
  /// Returns a number for each entry. Throws UserError for an entry that is no number.
  Metrics metrics() const;
  /// Returns the names of the sections in this one, each once.
  std::vector<std::string> sections() const;

 private:
  StateReader(const TensorIndex& tensors, std::string file, std::string path)
      : tensors_(tensors), file_(std::move(file)), path_(std::move(path)) {}

  const TensorIndex& tensors_;
  std::string file_;
  std::string path_;
};

/// Deletes the entries of a section.
void erase_section(NamedTensors& tensors, std::string_view section);

}  // namespace cohort
