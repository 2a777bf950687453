// One training, from the first batch to the last step: what its callbacks see as a Fit.
//
// An epoch is a sequence of steps; a step is one or several micro-batches and a vote: whether a rank wants to stop, and
// whether one has no more batches. Each part of the loop has a state of its own and keeps no other part: its functions
// are given those that they need. Lives as long as the training. [main] thread.
#pragma once

#include <cstdint>
#include <optional>

#include <cohort/callback.hpp>

#include "loop/awaited_metrics.hpp"
#include "loop/epoch.hpp"
#include "loop/fit_context.hpp"
#include "loop/joining.hpp"
#include "loop/open_data.hpp"
#include "loop/reporting.hpp"
#include "loop/snapshots.hpp"
#include "loop/step_runner.hpp"
#include "loop/stopping.hpp"
#include "loop/validation.hpp"

namespace cohort {

class FitLoop final : public Fit {
 public:
  FitLoop(const FitContext& context, FitData data);
  FitLoop(const FitLoop&) = delete;
  FitLoop& operator=(const FitLoop&) = delete;

  /// Trains until a limit is reached or a rank wants to stop; returns the reason that all ranks agreed on. Collective.
  StopReason run(std::optional<LoadedCheckpoint> resumed);

  uint64_t step() const override { return context_.session.steps(); }
  int64_t epoch() const override { return epoch_.number(); }
  int64_t batch() const override { return epoch_.batches(); }
  std::optional<int64_t> batches_per_epoch() const override { return epoch_.length(); }
  std::optional<uint64_t> total_steps() const override { return epoch_.total_steps(); }
  std::optional<int64_t> total_epochs() const override { return context_.limits.max_epochs; }
  bool is_epoch_over() override { return stopping_.is_over() || epoch_.is_complete(joining_); }
  const Metrics& metrics() const override { return context_.record.metrics; }
  Metrics bar_values() const override { return reporting_.bar_values(); }
  Module& module() override { return context_.module; }
  const Optimizers& optimizers() override { return context_.session.optimizers(); }
  Runtime& runtime() override { return context_.runtime; }
  const at::Tensor& weights_of(const at::Tensor& weight) override { return context_.session.weights_of(weight); }
  const StopReason& stop_reason() const override { return stopping_.agreed(); }
  void log(std::string_view name, double value) override {
    reporting_.board().add(name, value, {.where = LogWhere::kStep});
  }
  void stop(StopReason reason) override { stopping_.ask_to_stop(std::move(reason)); }
  std::optional<std::filesystem::path> save(const std::filesystem::path& folder, std::optional<int64_t> keep,
                                            std::function<void()> when_written) override;
  void open(const std::filesystem::path& folder) override;
  void keep_steps() override { snapshots_.keep_steps(); }
  double gradient_norm(size_t optimizer, double p) override;

 private:
  StopReason run_epochs();
  void tell_of(const std::exception& error);
  void tell_module();
  bool may_begin_epoch() const;
  void run_epoch();
  /// Takes a step of this many batches; with none this rank takes part in the step of those that have some.
  void take_step(int64_t window);
  /// Trains on the next batch of a step of `window`; returns the votes if it ends the step.
  Votes train_on_next(int64_t window, bool ends_step);
  void vote();
  void note_step(Votes votes, int64_t batches_before, int64_t window);

  void check_sanity();
  void validate();
  void validate_within_epoch();

  void finish_epoch();
  /// Returns whether another epoch may follow: this one is complete, and training does not stop abruptly.
  bool end_epoch(const MergedReport& merged, bool is_complete, LoopState& before);
  Metrics end_epoch_of_module();
  void begin_next_epoch();

  void begin_where_resumed();
  void resume_settings();
  void continue_epoch();
  void seed_added_rank();
  void keep_step();
  /// Returns the present state for a checkpoint. Waits for the device.
  LoopState state(bool validation_due = false);
  /// Returns the present state without the records of the epoch's metrics. Does not wait for the device.
  LoopState state_without_records();

  const FitContext context_;
  const Loader train_;
  FitHooks hooks_;
  Stopping stopping_;
  Joining joining_;
  Epoch epoch_;
  Reporting reporting_;
  StepRunner steps_;
  Validation validation_;
  AwaitedMetrics awaited_;
  Snapshots snapshots_;
  std::optional<LoadedCheckpoint> resumed_;  // until the loop stands where it stood
};

}  // namespace cohort
