// What a checkpoint says about itself: manifest.json.
//
// It is written last: a folder without it is no checkpoint. Hostile until parsed. From format 2 on it ends with its own
// checksum; formats 1 and 2 are still read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/error.hpp>
#include <cohort/hyper_parameters.hpp>
#include <cohort/loss_scale.hpp>

#include "files/file_digest.hpp"

namespace cohort {

/// A checkpoint that is not whole: an older one may do. What does not fit the program is a plain UserError.
struct DamagedCheckpoint : UserError {
  using UserError::UserError;
};

/// Where a training stands in its data. It goes on with batch `batches` of epoch `epoch`.
struct LoopPlace {
  int64_t fit = 1;  ///< which training of the program
  int64_t epoch = 0;
  int64_t batches = 0;          ///< of this epoch and rank, already trained on
  int64_t earlier_batches = 0;  ///< of these: by another number of ranks than this checkpoint's
  int64_t earlier_samples = 0;  ///< that those ranks have trained on
  int64_t more_steps = 0;       ///< of the training, than if it had been this checkpoint's number of ranks all along
  bool validation_due = false;  ///< a signal came in the middle of a validation: it is run again
  // What decides which samples those batches were.
  int64_t batch_size = 0;
  int64_t samples = 0;  ///< of the whole dataset; -1: a stream
  uint64_t seed = 0;
  bool shuffle = false;
  bool operator==(const LoopPlace&) const = default;
};

/// Hyper-parameters of some parameters; true is 1.
struct ParameterGroup {
  std::map<std::string, double> options;
  std::vector<std::string> parameters;
  bool operator==(const ParameterGroup&) const = default;
};

struct OptimizerSettings {
  std::string type;  ///< "Adam"
  std::vector<ParameterGroup> groups;
  bool operator==(const OptimizerSettings&) const = default;
};

/// Why a training has come to its end. A run that resumes it looks whether the same still ends it.
struct TrainingEnd {
  std::string exit_reason;  ///< "early_stopping", "max_steps"
  std::string text;         ///< as StopReason's
  std::string callback;     ///< that has asked for it; empty: the module or a limit
  std::string settings;     ///< of that callback
  std::optional<int64_t> limit;
  bool operator==(const TrainingEnd&) const = default;
};

struct Manifest {
  static constexpr int64_t kFormat = 3;

  std::string cohort_version, torch_version;
  uint64_t sequence = 0;                  ///< counts the checkpoints of a folder: the newest has the greatest
  uint64_t step = 0;                      ///< optimizer steps done, of the optimizer that has done most
  std::vector<uint64_t> optimizer_steps;  ///< of each optimizer; empty: of all the same
  int world_size = 1;
  std::string strategy;               ///< "ddp"; "NAME:VARIANT" if there are variants
  std::vector<std::string> per_rank;  ///< what each rank has its own of: "weights", "optimizer state", and what ties
                                      ///< the checkpoint to this number of ranks, state of the strategy in words
  std::map<std::string, std::string, std::less<>> layers;  ///< of the strategy: versions of their plugins
  std::optional<LoopPlace> loop;                           ///< absent: the program's own loop
  std::optional<TrainingEnd> end;                          ///< absent: a later run resumes it
  std::string precision = "32";                            ///< as --precision has it
  std::optional<LossScale> loss_scale;                     ///< absent: losses were not scaled
  HyperParameters hyperparameters;                         ///< that the module was made from
  std::vector<OptimizerSettings> optimizers;
  std::map<std::string, FileDigest> files;
  bool operator==(const Manifest&) const = default;
};

/// Entries of Manifest::per_rank whose means over ranks do for any number of ranks.
constexpr const char* kWeights = "weights";
constexpr const char* kOptimizerState = "optimizer state";

constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kSharedFile = "shared.safetensors";
std::string rank_file(int rank);  // "rank-3.safetensors"

std::string to_json(const Manifest& manifest);
/// `file` begins every message. Throws DamagedCheckpoint for a text that to_json did not write, UserError for a newer
/// format.
Manifest parse_manifest(std::string_view text, const std::string& file);

/// Returns the text of the manifest of a checkpoint. Throws DamagedCheckpoint if it cannot be read.
std::string read_manifest_text(const std::filesystem::path& checkpoint);

}  // namespace cohort
