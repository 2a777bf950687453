#include "loop/fit_loop.hpp"

#include <array>
#include <cmath>

#include <cohort/host/error.hpp>

#include "checkpoint/all_or_none.hpp"
#include "checkpoint/generators.hpp"
#include "loop/data_of_ranks.hpp"
#include "loop/evaluation.hpp"
#include "metrics/scalar.hpp"
#include "replicas/step_access.hpp"

namespace cohort {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double seconds_since(std::chrono::nanoseconds realtime) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now - realtime).count();
}

}  // namespace

FitLoop::FitLoop(Runtime& runtime, RunRecord& record, const LoopLimits& limits, Replicas& replicas, DataModule& data,
                 Session& session, FitCheckpoints& checkpoints, std::optional<LoadedCheckpoint> resumed)
    : runtime_(runtime),
      record_(record),
      limits_(limits),
      replicas_(replicas),
      module_(replicas.module()),
      session_(session),
      checkpoints_(checkpoints),
      resumed_(std::move(resumed)),
      train_(data.train()),
      validation_(data.validation()),
      validates_(limits.validate && !validation_.empty() && limits.validation.count != 0),
      report_(runtime, limits) {}

void FitLoop::compare_data() {
  const std::string own = data_text(train_);
  has_equal_data_ = runtime_.is_same_on_all_ranks(own, "comparing the ranks' training data");
  if (has_equal_data_) return;
  const std::string warning = warning_of_data(runtime_.all_gather(own));
  if (runtime_.is_first()) runtime_.log().warning(warning);
}

StopReason FitLoop::run() {
  compare_data();
  if (validates_) {  // a mistake in it is better found now than after an epoch
    const Shard shard{runtime_.rank(), runtime_.world_size(), runtime_.options().seed, 0};
    count_batches(validation_, shard, Purpose::kEvaluation, limits_.validation, "validation data");
  }
  const detail::StepAccess::Using session(module_, session_);
  const uint64_t bytes_before = runtime_.bytes_sent();
  if (resumed_) begin_where_resumed();
  if (limits_.train.count == 0) return agreed_;  // epochs without a step would never end
  // An epoch that was left at its limit still has its end before it.
  while (!over_ && (!limits_.max_epochs || epoch_ < *limits_.max_epochs) && (resumed_ || !limit_reached())) {
    run_epoch();
  }
  record_.bytes_sent += runtime_.bytes_sent() - bytes_before;
  hear_late_signal();
  return agreed_;
}

// One that came with the last checkpoint: whatever would follow this training shall not begin.
void FitLoop::hear_late_signal() {
  if (agreed_.kind >= StopReason::Kind::kSignal) return;
  StopReason late;
  if (const int signal = signals_.pending()) late = {StopReason::Kind::kSignal, signal, runtime_.rank()};
  if (const auto stop = merge_reports(runtime_.all_gather(to_text({late, {}}))).stop) agreed_ = stop;
}

void FitLoop::begin_where_resumed() {
  const LoopState& saved = *resumed_->loop;
  all_or_none(runtime_, [&] {  // the manifest tells of rank 0's data
    if (runtime_.is_first()) check_same_data(saved.place, place(), resumed_->path);
  });
  apply_checkpoint(*resumed_, session_);
  resume_strategy(*resumed_, session_);
  epoch_ = saved.place.epoch;
  batches_ = saved.place.batches;
  report_.go_on_after(resumed_->manifest.step);
  record_.steps_before += resumed_->manifest.step;
  record_.epochs += epoch_;
  for (const auto& [name, value] : saved.latest) record_.metrics[name] = value;
  if (batches_ == 0) resumed_.reset();
  const bool done = (limit_reached() && !resumed_) || (limits_.max_epochs && epoch_ >= *limits_.max_epochs);
  if (done && runtime_.is_first()) runtime_.log().info("Nothing is left to train: the limits were reached before");
}

// In the middle of an epoch. What its start has drawn from the generator or set in the optimizer has happened before.
void FitLoop::continue_epoch() {
  apply_checkpoint(*resumed_, session_);
  board_.restore(resumed_->loop->records);
  validation_means_ = resumed_->loop->validation_means;
  const bool validation_due = resumed_->loop->place.validation_due;
  resumed_.reset();
  if (validation_due && validates_) validate_within_epoch();
  over_ = over_ || limit_reached();
}

LoopPlace FitLoop::place() const {
  return {.fit = checkpoints_.fit(),
          .epoch = epoch_,
          .batches = batches_,
          .batch_size = train_.stream ? 1 : train_.batch_size,
          .samples = train_.dataset ? train_.dataset->size() : -1,
          .seed = runtime_.options().seed,
          .shuffle = train_.shuffle};
}

LoopState FitLoop::state(bool validation_due) {
  if (source_) source_->settle();
  LoopState state{.place = place(),
                  .generator = generator_state(),
                  .generator_before_ahead = source_ ? source_->generator_before_ahead() : at::Tensor(),
                  .records = board_.records(),
                  .validation_means = validation_means_,
                  .latest = record_.metrics};
  state.place.validation_due = validation_due;
  return state;
}

bool FitLoop::limit_reached() const {
  return limits_.max_steps && session_.steps() >= static_cast<uint64_t>(*limits_.max_steps);
}

void FitLoop::open_epoch() {
  const Shard shard{runtime_.rank(), runtime_.world_size(), runtime_.options().seed, epoch_};
  batches_ = resumed_ ? resumed_->loop->place.batches : 0;
  source_ =
      open_batches(train_, shard, Purpose::kTraining, limits_.train, "training data", batches_, runtime_.device());
  if (resumed_ && resumed_->loop->generator_before_ahead.defined()) {  // what was read ahead is read again
    set_generator_state(resumed_->loop->generator_before_ahead, resumed_->path.string());
  }
  // Only a vote in every step ends an epoch with the first rank that runs out of batches; where all have equally many
  // the end needs no vote, and the rest can wait for the step that is logged.
  session_.vote_every(has_equal_ranks() ? static_cast<uint64_t>(limits_.log_every_n_steps) : 1);
  const int64_t left = source_->available(train_.stream ? 1 : std::numeric_limits<int64_t>::max());
  source_->settle();
  epoch_length_ = train_.stream ? std::nullopt : std::optional(batches_ + left);
  validation_interval_ = validates_ ? validation_interval(limits_.val_check_interval, epoch_length_) : std::nullopt;
  std::array<double, 2> ranks_without{batches_ + left > 0 ? 0.0 : 1.0, left > 0 ? 0.0 : 1.0};  // any batch; another one
  if (!has_equal_ranks()) runtime_.all_reduce_sum(ranks_without);
  out_of_data_ = ranks_without[1] > 0;
  if (ranks_without[0] > 0 && limits_.train.count != 0) {
    throw UserError("the training data gave no batch in epoch " + std::to_string(epoch_) +
                    " on at least one rank; every rank needs one in each epoch");
  }
}

void FitLoop::run_epoch() {
  const auto begun = Clock::now();
  open_epoch();
  module_.train();
  module_.on_train_epoch_start(epoch_);
  replicas_.follow_modes();
  board_.clear();
  validation_means_.clear();
  if (resumed_) continue_epoch();
  step_begun_ = Clock::now();
  const Module::Recording recording(module_, limits_.report ? &board_ : nullptr);
  while (!over_ && !out_of_data_) {
    const int64_t window = source_->available(limits_.accumulate);
    if (window == 0) break;
    const int64_t batches_before = batches_;
    take_step(window);
    if (validation_interval_) validate_at_interval(batches_before);
    const bool ends = over_ || out_of_data_ || source_->available(1) == 0;
    if (ends || !checkpoints_.due(session_.steps())) continue;
    over_ = session_.exchange_votes().stop;  // a loss that was not finite is no state to go on from
    if (!over_) checkpoints_.save(session_, state());
  }
  finish_epoch(begun);
}

void FitLoop::take_step(int64_t window) {
  {
    std::optional<Session::NoSync> no_sync;
    if (window > 1) no_sync.emplace(session_);
    for (int64_t i = 1; i < window; ++i) run_micro_batch(window, /*last=*/false);
  }
  run_micro_batch(window, /*last=*/true);
  note_step(votes_);
}

void FitLoop::run_micro_batch(int64_t window, bool last) {
  const Batch batch = source_->next();
  const int64_t samples = batch.batch_size();
  board_.begin_batch(samples);
  if (module_.automatic_optimization()) {
    run_phases(batch, window, last);
  } else {
    run_by_hand(batch);
  }
  ++batches_;
  record_.samples += static_cast<uint64_t>(samples);
}

void FitLoop::run_phases(const Batch& batch, int64_t window, bool last) {
  votes_ = {};
  for (size_t phase = 0; phase < session_.optimizers().size(); ++phase) {
    detail::StepAccess::set_phase(module_, phase);
    session_.begin(phase);
    MetricBoard* const board = limits_.report ? &board_ : nullptr;
    note_loss(replicas_.train(session_, board, batch, batches_, 1.0 / static_cast<double>(window)));
    if (last) vote();
    session_.end_backward();
    if (last) votes_ = votes_ | session_.step();
  }
}

void FitLoop::run_by_hand(const Batch& batch) {
  session_.begin_all();
  replicas_.train_by_hand(batch, batches_);
  vote();
  votes_ = session_.exchange_votes();
}

void FitLoop::vote() {
  check_wishes();
  session_.vote({.stop = static_cast<bool>(wish_), .out_of_data = source_->available(1) == 0});
}

void FitLoop::note_loss(const at::Tensor& loss) {
  // A number that lies on the CPU costs nothing to look at; a device is asked at the logging interval only.
  auto value = value_at_hand(loss);
  const int64_t step = static_cast<int64_t>(session_.steps()) + 1;
  if (!value && step % limits_.log_every_n_steps == 0) value = loss.detach().to(at::kCPU, at::kDouble).item<double>();
  const bool is_first = wish_.kind != StopReason::Kind::kNotFinite;
  if (value && !std::isfinite(*value) && is_first) wish_ = {StopReason::Kind::kNotFinite, step, runtime_.rank()};
}

void FitLoop::check_wishes() {
  const int signal = wish_.kind < StopReason::Kind::kSignal ? signals_.pending() : 0;
  if (signal != 0) wish_ = {StopReason::Kind::kSignal, signal, runtime_.rank()};
  if (!wish_ && limits_.max_time && runtime_.is_first() && Clock::now() - begun_ >= *limits_.max_time) {
    wish_ = {StopReason::Kind::kMaxTime, 0, 0};
  }
}

void FitLoop::note_step(Votes votes) {
  const auto now = Clock::now();
  ++record_.steps;
  record_.add_step_time(now - step_begun_);
  record_.training_seconds += seconds_between(step_begun_, now);
  if (record_.steps == 1) record_.seconds_to_first_step = seconds_since(record_.started);
  step_begun_ = now;
  out_of_data_ = votes.out_of_data;
  over_ = votes.stop || limit_reached();
  if (!limits_.report) return;
  report_.batch(epoch_, batches_, epoch_length_);
  if (session_.steps() % static_cast<uint64_t>(limits_.log_every_n_steps) == 0) read_step_values();
}

void FitLoop::read_step_values() {
  const auto values = board_.step_values();
  reported_steps_ = session_.steps();
  for (const auto& [name, value] : values) record_.metrics[name] = value;
  report_.step(epoch_, session_.steps(), values);
}

void FitLoop::validate_at_interval(int64_t batches_before) {
  if (batches_before / *validation_interval_ == batches_ / *validation_interval_) return;
  validate_within_epoch();
  step_begun_ = Clock::now();
}

void FitLoop::validate_within_epoch() {
  LoopState before = state(/*validation_due=*/true);
  validate();
  if (over_) before_stop_ = std::move(before);
  report_.validation(epoch_, session_.steps(), validation_means_);
}

void FitLoop::validate() {
  session_.pause_for_evaluation();
  const EvaluationPass pass{{&Module::validation_step, &Module::validation_step_end},
                            validation_,
                            limits_.validation,
                            "validation data",
                            [this] { return signals_.pending() != 0; }};
  const auto merged = evaluate(runtime_, replicas_, pass, [this] {
    check_wishes();
    return wish_;
  });
  validation_means_ = merged.means;
  if (merged.stop) {
    agreed_ = merged.stop;
    over_ = true;
  }
}

void FitLoop::finish_epoch(Clock::time_point begun) {
  if (limits_.report && reported_steps_ != session_.steps()) read_step_values();
  const LoopState before = state();
  check_wishes();
  const auto merged = merge_reports(runtime_.all_gather(to_text({wish_, board_.totals()})));
  if (merged.stop) {
    agreed_ = merged.stop;
    over_ = true;
  }
  const bool complete = out_of_data_ || source_->available(1) == 0;
  if (!complete) save_unfinished(before);
  if (complete) ++record_.epochs;
  const bool validate_now = validates_ && !limits_.val_check_interval && merged.stop.kind <= StopReason::Kind::kMaxTime;
  if (validate_now) validate();
  const bool finished = complete && agreed_.kind <= StopReason::Kind::kMaxTime;
  if (!finished) save_unfinished(before);
  module_.on_train_epoch_end(epoch_);
  Metrics means = merged.means;
  means.insert(validation_means_.begin(), validation_means_.end());
  for (const auto& [name, value] : means) record_.metrics[name] = value;
  if (limits_.report) report_.epoch(epoch_, session_.steps(), means, seconds_between(begun, Clock::now()));
  if (finished) begin_next_epoch();
}

// Before the validation and the hooks that end an epoch: they belong to the run that goes on and comes to that end.
void FitLoop::save_unfinished(const LoopState& before) {
  if (agreed_.kind != StopReason::Kind::kNotFinite) checkpoints_.save(session_, before_stop_ ? *before_stop_ : before);
}

void FitLoop::begin_next_epoch() {
  ++epoch_;
  batches_ = 0;
  board_.clear();
  validation_means_.clear();
  source_.reset();
  checkpoints_.save(session_, state());
}

}  // namespace cohort
