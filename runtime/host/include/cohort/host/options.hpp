// The options of a program: command line, environment, TOML file, code and defaults, merged once into one value.
//
// Precedence: flag > environment (COHORT_<FLAG>) > --config > code > default. `-` and `_` are equal in flag names.
// After parsing nothing changes an Options any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <cohort/host/log.hpp>
#include <cohort/host/spec.hpp>

namespace cohort {

/// Which devices: a count, explicit ids, or all of them.
struct Devices {
  enum class Kind { kDefault, kCount, kIds, kNames, kAll };
  Kind kind = Kind::kDefault;
  int count = 0;
  std::vector<int> ids;
  std::vector<std::string> names;  ///< as the driver gives them to GPUs and their parts: "GPU-8932f937-...", "MIG-..."
  bool operator==(const Devices&) const = default;
};

/// How many batches of a loop: all, a count, or a fraction of the epoch in (0, 1].
struct BatchLimit {
  std::optional<int64_t> count;
  std::optional<double> fraction;
  /// Number of batches out of `available`.
  int64_t of(int64_t available) const;
  bool operator==(const BatchLimit&) const = default;
};

/// Decides about a trained parameter that no rank's loss depends on in a step: it keeps no gradient, has one of zeros,
/// or ends the training.
enum class UnusedParameters { kTrack, kZero, kError };

/// In which types a model computes; see docs/user.md.
enum class Precision { k32, k64, k16Mixed, kBf16Mixed, k16True, kBf16True };
std::string_view to_string(Precision precision);  // "16-mixed"

/// Decides when an epoch ends whose ranks have different numbers of batches: with the first rank that has no more, or
/// with the last one.
enum class UnevenData { kStop, kJoin };

/// Decides which settings of optimizers (learning rate, weight decay) a run resumes with.
enum class ResumeSettings { kCheckpoint, kProgram };

/// Decides whether the ranks' models draw the same random numbers.
enum class RankNoise { kApart, kAlike };

/// Where a value came from.
enum class Origin { kDefault, kCode, kConfig, kEnvironment, kFlag };
std::string_view to_string(Origin origin);  // "default", "code", "config file", "environment", "flag"

struct Options {
  // Where and how.
  std::optional<StrategySpec> strategy;
  std::vector<Spec> layers;
  std::string accelerator = "auto";
  Devices devices;
  int num_nodes = 1;
  std::optional<CollectiveSpec> collective;       ///< absent: auto
  std::optional<uint64_t> bucket_size;            ///< bytes; absent: the strategy's, or by measurement
  std::optional<std::filesystem::path> autotune;  ///< file for what is found; absent: off
  Precision precision = Precision::k32;
  // Loops.
  std::optional<int64_t> max_epochs;
  std::optional<int64_t> max_steps;  ///< optimizer steps
  std::optional<std::chrono::seconds> max_time;
  BatchLimit limit_train_batches, limit_val_batches, limit_test_batches, limit_predict_batches;
  std::optional<BatchLimit> overfit_batches;     ///< trained on and validated in each epoch; absent: all data
  std::optional<BatchLimit> val_check_interval;  ///< batches or fraction of an epoch; absent: at its end
  int64_t check_val_every_n_epoch = 1;
  int64_t num_sanity_val_steps = 2;  ///< validation batches that are tried before training
  int64_t log_every_n_steps = 50;
  int64_t accumulate_grad_batches = 1;
  int64_t pieces = 1;                       ///< of each training batch; 0: as few as the memory allows (auto)
  std::optional<double> gradient_clip_val;  ///< absent or 0: gradients stay as they are
  bool gradient_clip_by_value = false;      ///< --gradient-clip-algorithm=norm|value
  std::optional<Spec> early_stopping;       ///< a metric, and when it no longer improves
  std::optional<double> ema;                ///< decay of averaged weights
  bool ema_buffers = false;                 ///< buffers are averaged too
  std::optional<double> track_grad_norm;    ///< 2 or infinity: this norm of the gradients is logged
  bool sync_batchnorm = false;              ///< SyncBatchNorm takes statistics over all ranks
  UnusedParameters unused = UnusedParameters::kTrack;
  UnevenData uneven = UnevenData::kStop;
  std::optional<int64_t> graph;  ///< steps after which one is captured and replayed; absent: never
  uint64_t seed = 0;
  RankNoise rank_noise = RankNoise::kApart;
  bool deterministic = false;   ///< the same bits in every run, on every collective
  bool detect_anomaly = false;  ///< backward names the operator that makes a NaN
  bool barebones = false;       ///< nothing but the loop: no logs, bars, metrics files, validation
  int64_t fast_dev_run = 0;     ///< > 0: this many batches of each loop, no files
  // Plugins.
  std::vector<std::filesystem::path> plugins, plugin_dirs;
  // Output.
  std::filesystem::path log_dir, summary_json, config;
  std::vector<Spec> loggers;    ///< "csv", "json", "tensorboard", or a plugin's; empty: csv if there is a log_dir
  std::optional<Spec> profile;  ///< a file for the trace, and the steps in it; absent: off
  // Checkpoints.
  std::filesystem::path checkpoint_dir, resume;  ///< resume: a folder, or "auto"
  ResumeSettings resume_settings = ResumeSettings::kCheckpoint;
  std::optional<int64_t> checkpoint_every_n_steps;  ///< besides the ends of epochs and training
  int64_t keep_checkpoints = 2;
  std::optional<Spec> monitor;  ///< a metric, whose best checkpoints are kept beside the newest
  int64_t keep_best = 1;
  host::LogLevel log_level = host::LogLevel::kInfo;
  host::LogFormat log_format = host::LogFormat::kText;
  bool print_config = false;
  // Time.
  std::chrono::nanoseconds timeout{std::chrono::seconds(300)};
  bool tune_malloc = true;     ///< --malloc=tuned|default
  bool insecure = false;       ///< without a job secret strangers on the network could join
  std::optional<int> threads;  ///< intra-op threads of each rank; absent: usable cores / ranks on this machine
  // The program's own, by name, as text.
  std::map<std::string, std::string> own;
  // Tables [strategy.NAME], [collective.NAME] of the config file: options for that plugin where the spec does not give
  // them.
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> plugin_options;

  std::map<std::string, Origin, std::less<>> origins;  ///< by flag name; absent: default
  Origin origin(std::string_view flag) const;
  /// Flags that were set by an older spelling, with that: {"devices", "--gpus"}.
  std::map<std::string, std::string, std::less<>> older_spellings;
  std::vector<std::string> warnings;  ///< for the log: older spellings, variables that nothing reads
};

namespace host {

/// An option that a program adds to the common ones.
struct OwnOption {
  std::string name;  ///< as the flag, without dashes
  std::string default_value;
  std::string help;
};

/// What the process was given. The only way in which environment variables reach the options.
struct OptionSources {
  std::string program;                 ///< for --help
  std::vector<std::string> arguments;  ///< without the program's name
  std::map<std::string, std::string, std::less<>> environment;
  std::vector<OwnOption> own;
};

/// Thrown for --help: the text goes to standard output, the exit code is 0.
struct HelpRequested {
  std::string text;
};

/// Merges the sources over `code` (defaults set in the program). Throws UserError, or HelpRequested.
Options parse_options(const OptionSources& sources, const Options& code);

/// A TOML text that --config reads back to the same options, each with its origin as a comment.
std::string print_config(const Options& options);

/// Returns a line for each option that has to be equal on all ranks, for agree(): "max-steps = 20".
std::string text_across_ranks(const Options& options);

/// "300", "300s", "5m", "2h", "1d", "100ms"; throws UserError naming `what`.
std::chrono::nanoseconds parse_duration(std::string_view text, std::string_view what);
/// One that can be waited for: above 0, below ten years.
std::chrono::nanoseconds parse_time(std::string_view text, std::string_view what);
/// The same, or "DD:HH:MM:SS".
std::chrono::nanoseconds parse_long_time(std::string_view text, std::string_view what);
/// "26214400", "25MiB", "64KiB", "1GiB", "10MB"; bytes. Throws UserError naming `what`.
uint64_t parse_size(std::string_view text, std::string_view what);

/// The process environment as a map. The one place besides environment/ that reads it.
std::map<std::string, std::string, std::less<>> process_environment();

}  // namespace host
}  // namespace cohort
