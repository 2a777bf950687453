// The loops: training with validation, validation alone, and test.
//
// Borrows runtime, module and data for the length of each call. [main] thread; the same calls in the same order on
// every rank. Where the strategy forks its ranks each call forks them anew: setup, on_fit_start, configure_optimizers,
// configure_callbacks, on_fit_end and teardown of the module and prepare of the data run in the calling process, all
// their other functions in the ranks. Afterwards weights, buffers, what save_state keeps, optimizers, metrics and
// random numbers here are rank 0's; what else the ranks have changed is gone.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cohort/callback.hpp>
#include <cohort/data.hpp>
#include <cohort/host/error.hpp>
#include <cohort/logger.hpp>
#include <cohort/metrics.hpp>
#include <cohort/prediction_writer.hpp>
#include <cohort/run_record.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

class Module;
struct LoopLimits;

/// Makes a logger of the program's own, in rank 0 of each fit. `folder` is that of the run.
using MakeLogger = std::function<std::shared_ptr<Logger>(const std::filesystem::path& folder)>;

/// Holds the settings that the program gives in code. Flags, environment and file win over its limits.
struct TrainerDefaults {
  std::optional<int64_t> max_epochs{};
  std::optional<int64_t> max_steps{};
  std::optional<std::chrono::seconds> max_time{};
  std::vector<std::shared_ptr<Callback>> callbacks{};  ///< called in this order, in each fit
  std::vector<MakeLogger> loggers{};                   ///< beside those of --logger
};

/// All ranks ended training together because it cannot go on.
struct StoppedTogether : TrainingFailed {
  using TrainingFailed::TrainingFailed;
};

/// Training was stopped by a signal, on all ranks, after a complete step. Ends the program with 128 + signal.
struct Interrupted {
  int signal;
};

/// A rank in which fit, validate or test ran in a fork of this process failed, and has said why: nothing is left to be
/// reported. Ends the program with that rank's exit code. The module is as before the call.
struct RankFailed : Error {
  using Error::Error;
};

class Trainer {
 public:
  Trainer(Runtime& runtime, RunRecord& record, TrainerDefaults defaults = {});

  /// Trains until the first limit is reached; afterwards the module holds the trained weights. Returns the latest value
  /// of each metric. Throws UserError for what the user can mend, TrainingFailed for a loss that is not finite,
  /// Interrupted after a signal, RankFailed.
  Metrics fit(Module& module, DataModule& data);
  /// One pass over the validation data: the means over all ranks, which rank 0 prints to standard output.
  Metrics validate(Module& module, DataModule& data);
  /// One pass over the test data; rank 0 prints the results to standard output.
  Metrics test(Module& module, DataModule& data);
  /// One pass over the data of DataModule::predict. Returns the outputs of predict_step for all samples, in the order
  /// of the data and without padding, as one value of the same structure on the CPU: on rank 0, and in the caller if
  /// ranks are forked; elsewhere nothing. A stream's are rank by rank.
  Value predict(Module& module, DataModule& data);
  /// The same, but each rank gives its outputs to the writer, batch by batch, and keeps none. All batches of all ranks
  /// are written when it returns.
  void predict(Module& module, DataModule& data, PredictionWriter& writer);

 private:
  void print_results(const std::string& title, const Metrics& means) const;
  Metrics evaluate(Module& module, DataModule& data, Stage stage);
  Value predict(Module& module, DataModule& data, PredictionWriter* writer);

  Runtime& runtime_;
  RunRecord& record_;
  TrainerDefaults defaults_;
};

}  // namespace cohort
