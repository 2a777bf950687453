// The loops: training with validation, validation alone, and test.
//
// Borrows runtime, module and data for the length of each call. [main] thread; the same calls in the same order on
// every rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <cohort/data.hpp>
#include <cohort/metrics.hpp>
#include <cohort/module.hpp>
#include <cohort/run_record.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

struct EvaluationPass;

/// Ends of the training where neither flag, environment nor file sets one.
struct TrainerDefaults {
  std::optional<int64_t> max_epochs{};
  std::optional<int64_t> max_steps{};
  std::optional<std::chrono::seconds> max_time{};
};

/// All ranks ended training together because it cannot go on.
struct StoppedTogether : TrainingFailed {
  using TrainingFailed::TrainingFailed;
};

/// Training was stopped by a signal, on all ranks, after a complete step. Ends the program with 128 + signal.
struct Interrupted {
  int signal;
};

class Trainer {
 public:
  Trainer(Runtime& runtime, RunRecord& record, TrainerDefaults defaults = {});

  /// Trains until the first limit is reached; afterwards the module holds the trained weights. Throws UserError for
  /// what the user can mend, TrainingFailed for a loss that is not finite, Interrupted after a signal.
  void fit(Module& module, DataModule& data);
  /// One pass over the validation data: the means over all ranks.
  Metrics validate(Module& module, DataModule& data);
  /// One pass over the test data; rank 0 prints the results to standard output.
  Metrics test(Module& module, DataModule& data);

 private:
  Metrics evaluate(Module& module, const EvaluationPass& pass);

  Runtime& runtime_;
  RunRecord& record_;
  TrainerDefaults defaults_;
};

}  // namespace cohort
