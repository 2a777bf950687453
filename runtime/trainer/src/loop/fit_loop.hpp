// One training, from the first batch to the last step.
//
// Lives as long as the training; borrows everything it is given. [main] thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <cohort/data.hpp>
#include <cohort/module.hpp>
#include <cohort/run_record.hpp>
#include <cohort/runtime.hpp>
#include <cohort/session.hpp>

#include "checkpoint/fit_checkpoints.hpp"
#include "data/batch_source.hpp"
#include "loop/limits.hpp"
#include "loop/rank_report.hpp"
#include "loop/stop_signal.hpp"
#include "metrics/metric_board.hpp"
#include "replicas/replicas.hpp"
#include "report/fit_report.hpp"

namespace cohort {

class FitLoop {
 public:
  FitLoop(Runtime& runtime, RunRecord& record, const LoopLimits& limits, Replicas& replicas, DataModule& data,
          Session& session, FitCheckpoints& checkpoints, std::optional<LoadedCheckpoint> resumed);

  /// Trains until a limit is reached or a rank wants to stop; gives the reason that all ranks agreed on. Collective.
  StopReason run();

 private:
  using Clock = std::chrono::steady_clock;

  void compare_data();
  void begin_where_resumed();
  void continue_epoch();
  void run_epoch();
  void open_epoch();
  void take_step(int64_t window);
  void run_micro_batch(int64_t window, bool last);
  void run_phases(const Batch& batch, int64_t window, bool last);
  void run_by_hand(const Batch& batch);
  void vote();
  void note_step(Votes votes);
  void note_loss(const at::Tensor& loss);
  void check_wishes();
  void read_step_values();
  void validate_at_interval(int64_t batches_before);
  void validate();
  void validate_within_epoch();
  LoopState state(bool validation_due = false);
  LoopPlace place() const;
  void finish_epoch(Clock::time_point begun);
  void hear_late_signal();
  void save_unfinished(const LoopState& before);
  void begin_next_epoch();
  bool limit_reached() const;
  /// The runtime's own samplers give every rank the same number of batches; streams and samplers of the user may not.
  bool has_equal_ranks() const { return has_equal_data_ && !train_.stream && !train_.sampler; }

  Runtime& runtime_;
  RunRecord& record_;
  const LoopLimits& limits_;
  Replicas& replicas_;
  Module& module_;
  Session& session_;
  FitCheckpoints& checkpoints_;
  std::optional<LoadedCheckpoint> resumed_;  // until the loop stands where it stood
  const Loader train_;
  const Loader validation_;
  const bool validates_;
  bool has_equal_data_ = true;  // all ranks have the same number of samples and batch size
  FitReport report_;
  StopSignal signals_;
  MetricBoard board_;
  const Clock::time_point begun_ = Clock::now();

  std::unique_ptr<BatchSource> source_;
  std::optional<int64_t> epoch_length_;
  std::optional<int64_t> validation_interval_;
  int64_t epoch_ = 0;
  int64_t batches_ = 0;  // of this epoch
  Clock::time_point step_begun_;
  uint64_t reported_steps_ = 0;  // the last step whose values were written
  Votes votes_;                  // of the ranks, in the step that is being taken
  StopReason wish_;              // this rank's
  StopReason agreed_;            // of all ranks
  bool over_ = false;
  bool out_of_data_ = false;
  Metrics validation_means_;
  std::optional<LoopState> before_stop_;  // a run that goes on does again what came after it
};

}  // namespace cohort
