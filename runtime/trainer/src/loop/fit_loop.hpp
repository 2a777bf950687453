// One training, from the first batch to the last step: what its callbacks see as a Fit.
//
// Lives as long as the training; borrows everything it is given. [main] thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>

#include <cohort/callback.hpp>
#include <cohort/data.hpp>
#include <cohort/module.hpp>
#include <cohort/run_record.hpp>
#include <cohort/runtime.hpp>
#include <cohort/step_driver.hpp>

#include "callbacks/callback_list.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "data/batch_source.hpp"
#include "failure/hook_place.hpp"
#include "graph/captured_step.hpp"
#include "loop/evaluation.hpp"
#include "loop/kept_step.hpp"
#include "loop/open_data.hpp"
#include "metrics/metric_board.hpp"
#include "metrics/rank_report.hpp"
#include "profile/profile.hpp"
#include "replicas/replicas.hpp"
#include "settings/limits.hpp"

namespace cohort {

class FitLoop final : public Fit {
 public:
  /// `fit` counts the trainings of the program, from 1. `profile` may be null.
  FitLoop(Runtime& runtime, RunRecord& record, const LoopLimits& limits, Replicas& replicas, FitData data,
          StepDriver& session, const CallbackList& callbacks, CheckpointWriter& checkpoints, int64_t fit,
          Profile* profile);

  ~FitLoop() override { board_.metrics().reset(); }
  FitLoop(const FitLoop&) = delete;
  FitLoop& operator=(const FitLoop&) = delete;

  /// Trains until a limit is reached or a rank wants to stop; returns the reason that all ranks agreed on. Collective.
  StopReason run(std::optional<LoadedCheckpoint> resumed);

  uint64_t step() const override { return session_.steps(); }
  int64_t epoch() const override { return epoch_; }
  int64_t batch() const override { return batches_; }
  std::optional<int64_t> batches_per_epoch() const override { return epoch_length_; }
  std::optional<uint64_t> total_steps() const override {
    return planned_steps(limits_, earlier_.samples == 0 ? epoch_length_ : whole_epoch_length_, more_steps_);
  }
  std::optional<int64_t> total_epochs() const override { return limits_.max_epochs; }
  bool is_epoch_over() override { return over_ || is_complete(); }
  const Metrics& metrics() const override { return record_.metrics; }
  Metrics bar_values() const override;
  Module& module() override { return module_; }
  const Optimizers& optimizers() override { return session_.optimizers(); }
  Runtime& runtime() override { return runtime_; }
  const at::Tensor& weights_of(const at::Tensor& parameter) override { return session_.weights_of(parameter); }
  const StopReason& stop_reason() const override { return agreed_; }
  void log(std::string_view name, double value) override { board_.add(name, value, {.where = LogWhere::kStep}); }
  void stop(StopReason reason) override;
  std::optional<std::filesystem::path> save(const std::filesystem::path& folder, std::optional<int64_t> keep,
                                            std::function<void()> when_written) override;
  void open(const std::filesystem::path& folder) override { checkpoints_.open(checkpoints_.opened_as(folder)); }
  void keep_steps() override;
  double gradient_norm(size_t optimizer, double p) override;

 private:
  using Clock = std::chrono::steady_clock;

  StopReason run_epochs(std::optional<LoadedCheckpoint> resumed);
  void tell_of(const std::exception& error);
  StepHooks step_hooks();
  at::Tensor evaluate_again(size_t phase);
  void compare_data();
  void begin_where_resumed();
  void continue_epoch();
  void seed_added_rank();
  void tell_module();
  void run_epoch();
  void open_epoch();
  int64_t left_of_epoch(int64_t own);
  void divide_what_is_left();
  EarlierPart part_before(const LoopPlace& saved, int ranks) const;
  int64_t steps_before(int64_t epoch, int ranks) const;
  int64_t available(int64_t batches);
  Batch next_batch();
  /// Takes a step of this many batches; with none this rank takes part in the step of those that have some.
  void take_step(int64_t window);
  void count_with_others(int64_t batches_before, int64_t window);
  void count_active_ranks();
  void run_micro_batch(int64_t window, bool last);
  void run_phases(const Batch* batch, int64_t window, bool last);
  void wait_for_gradients();
  void step_optimizer();
  void run_by_hand(const Batch& batch);
  void run_by_graph(const Batch& batch);
  void require_equal_batches() const;
  void vote();
  void note_step(Votes votes);
  void note_loss(const at::Tensor& loss, uint64_t step);
  void ask_callbacks();
  bool is_logging_step() const { return step() % static_cast<uint64_t>(limits_.log_every_n_steps) == 0; }
  void log_step_values();
  void log_last_step();
  template <class Values>
  void show_on_bar(const MetricBoard& board, const Values& values);
  void validate_at_interval(int64_t batches_before);
  /// Tries validation before the training, so that a mistake in it is found before an epoch has passed.
  void check_sanity();
  Metrics try_validation(const BatchLimit& limit);
  /// Looks after the first step whether somebody logs what callbacks decide by. Throws UserError for a typing error on
  /// all ranks alike. Collective.
  void check_awaited_metrics();
  /// Returns whether validation, which a flag has switched off, would log the name. Collective.
  bool would_validate(const std::string& name);
  void check_awaited(const AwaitedMetric& metric, const std::set<std::string>& trained);
  bool validates_in_epoch() const { return validates_ && (epoch_ + 1) % limits_.validate_every_n_epochs == 0; }
  void validate();
  MergedReport evaluate_or_abandon(const EvaluationPass& pass);
  void abandon_validation();
  void validate_within_epoch();
  void leave_validation_out();
  LoopState state(bool validation_due = false);
  /// Returns the same without the records of the epoch's metrics, for which a device would be waited for.
  LoopState state_without_records();
  /// With keep_steps: keeps the present state.
  void keep_step();
  std::optional<std::filesystem::path> save_kept_step(const std::filesystem::path& folder, std::optional<int64_t> keep,
                                                      std::function<void()> when_written);
  LoopPlace place() const;
  void finish_epoch();
  /// Returns whether another epoch may follow: this one is complete, and training does not stop abruptly.
  bool end_epoch(const MergedReport& merged, bool complete, LoopState& before);
  /// Writes the checkpoint of an epoch that is complete, if its end fails on all ranks.
  void save_before_failure(LoopState& before);
  Metrics end_epoch_of_module();
  void agree_on_stop(const StopReason& own);
  void adopt(const StopReason& agreed);
  void hear_late_signal();
  void offer_save(SavePoint point);
  void offer_unfinished(LoopState& before);
  /// Returns why the training is at its end; nothing if a later run resumes it.
  std::optional<TrainingEnd> training_end() const;
  /// Ends the training if the one that is resumed was at its end, and is still. Collective.
  void heed_end(const std::optional<TrainingEnd>& end);
  StopReason still_ended_by(const TrainingEnd& end) const;
  void begin_next_epoch();
  bool limit_reached() const;
  /// Returns the place of a hook that is called now, and is given this batch.
  HookPlace place_of(const char* hook, const Batch* batch = nullptr) const;
  template <class... Args>
  void call(const char* name, void (Callback::*moment)(Fit&, Args...), std::type_identity_t<Args>... args) {
    callbacks_.call<Args...>(place_of(name, batch_in(args...)), moment, *this, args...);
  }
  static const Batch* batch_in(const Batch& batch) { return &batch; }
  template <class... Others>
  static const Batch* batch_in(const Others&...) {
    return nullptr;
  }
  /// The runtime's own samplers give every rank the same number of batches; streams and samplers of the user may not.
  bool has_equal_ranks() const { return has_equal_data_ && !train_.stream && !train_.sampler; }
  /// Returns whether an epoch goes on until the last rank has no batch left.
  bool joins() const { return runtime_.options().uneven == UnevenData::kJoin && !has_equal_ranks(); }
  bool is_complete() { return out_of_data_ || (!joins() && available(1) == 0); }

  Runtime& runtime_;
  RunRecord& record_;
  const LoopLimits& limits_;
  Replicas& replicas_;
  Module& module_;
  StepDriver& session_;
  const CallbackList& callbacks_;
  CheckpointWriter& checkpoints_;
  const int64_t fit_;
  Profile* const profile_;
  std::optional<LoadedCheckpoint> resumed_;  // until the loop stands where it stood
  const Loader train_;
  const std::vector<Loader> validation_;
  std::optional<CapturedStep> graph_;  // with --graph
  bool validates_;
  bool has_equal_data_ = true;  // all ranks have the same number of samples and batch size
  MetricBoard board_;

  std::unique_ptr<BatchSource> source_;
  std::optional<int64_t> epoch_length_;        // of this epoch
  std::optional<int64_t> whole_epoch_length_;  // of one without an earlier part
  int64_t more_steps_ = 0;                     // see LoopPlace
  std::optional<int64_t> validation_interval_;
  int64_t epoch_ = 0;
  int64_t batches_ = 0;                // of this epoch; between two steps those of the rank that has had most of them
  EarlierPart earlier_;                // of this epoch
  std::optional<int64_t> index_;       // of the batch in hand, within a step
  const Batch* batch_ = nullptr;       // in hand
  Clock::duration tried_for_{0};       // validation before and after the first step
  std::set<std::string> tried_names_;  // that it has logged
  bool names_are_checked_ = false;     // of awaited metrics
  std::optional<uint64_t> versions_before_hooks_;  // of the weights, before the hooks that end the epoch
  Clock::time_point step_begun_;
  uint64_t logged_steps_ = 0;  // the last step whose values were logged
  Votes votes_;                // of the ranks, in the step that is being taken
  StopReason wish_;            // this rank's
  StopReason agreed_;          // of all ranks
  bool over_ = false;
  bool out_of_data_ = false;  // the epoch has no further step
  double active_ranks_ = 0;   // that have a batch for the coming step; counted if the epoch joins
  Metrics validation_means_;
  Metrics on_bar_;                        // the latest of each name that is logged with kBar
  std::optional<double> loss_;            // of the last logging interval
  std::optional<LoopState> before_stop_;  // a resumed run does again what came after it
  SavePoint save_point_ = SavePoint::kStep;
  bool keeps_steps_ = false;
  bool has_failed_ = false;
  std::optional<KeptStep> kept_;            // with keep_steps, as soon as there is one
  const LoopState* saved_state_ = nullptr;  // what save() writes instead of the present state
};

}  // namespace cohort
