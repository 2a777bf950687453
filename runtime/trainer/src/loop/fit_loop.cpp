// The training loop.
//
// An epoch is a sequence of steps; a step is one or several micro-batches, each through every phase (optimizer), and a
// vote: whether a rank wants to stop, and whether one has no more batches. Callbacks say why to stop (stop()), which
// becomes this rank's wish; the votes carry the fact, and the exchange at the end of the epoch the reason.
#include "loop/fit_loop.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <torch/csrc/autograd/anomaly_mode.h>

#include <cohort/host/error.hpp>

#include "checkpoint/generators.hpp"
#include "loop/data_of_ranks.hpp"
#include "loop/evaluation.hpp"
#include "loop/gathered_report.hpp"
#include "metrics/scalar.hpp"
#include "module/step_access.hpp"

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

FitLoop::FitLoop(Runtime& runtime, RunRecord& record, const LoopLimits& limits, Replicas& replicas, FitData data,
                 StepDriver& session, const CallbackList& callbacks, CheckpointWriter& checkpoints, int64_t fit,
                 Profile* profile)
    : runtime_(runtime),
      record_(record),
      limits_(limits),
      replicas_(replicas),
      module_(replicas.module()),
      session_(session),
      callbacks_(callbacks),
      checkpoints_(checkpoints),
      fit_(fit),
      profile_(profile),
      train_(std::move(data.train)),
      validation_(std::move(data.validation)),
      validates_(limits.validate && !validation_.empty() && limits.validation.count != 0) {}

HookPlace FitLoop::place_of(const char* hook, const Batch* batch) const {
  return {.hook = hook, .epoch = epoch_, .index = index_, .rank = runtime_.rank(), .batch = batch};
}

void FitLoop::stop(StopReason reason) {
  if (reason.is_none()) reason.severity = StopReason::Severity::kEnd;
  if (reason.severity > wish_.severity) wish_ = std::move(reason);
}

void FitLoop::compare_data() {
  const std::string own = data_text(train_);
  has_equal_data_ = runtime_.is_same_on_all_ranks(own, "comparing the ranks' training data");
  if (has_equal_data_) return;
  const std::string warning = warning_of_data(runtime_.all_gather(own));
  if (runtime_.is_first()) runtime_.log().warning(warning);
}

StopReason FitLoop::run_epochs(std::optional<LoadedCheckpoint> resumed) {
  const TimedLoop timed(profile_);
  resumed_ = std::move(resumed);
  compare_data();
  epoch_length_ = planned_batches(train_, runtime_.world_size(), limits_.train);
  if (validates_) {  // a mistake in it is better found now than after an epoch
    const Shard shard{runtime_.rank(), runtime_.world_size(), runtime_.options().seed, 0};
    for (size_t i = 0; i < validation_.size(); ++i) {
      count_batches(validation_[i], shard, Purpose::kEvaluation, limits_.validation,
                    name_of_loader("validation data", validation_, i));
    }
  }
  const detail::StepAccess::Using session(module_, session_);
  session_.set_hooks(step_hooks());
  std::optional<torch::autograd::DetectAnomalyGuard> detect_anomaly;
  if (runtime_.options().detect_anomaly) detect_anomaly.emplace();
  const uint64_t bytes_before = runtime_.bytes_sent();
  if (resumed_) begin_where_resumed();
  tell_module();
  call("on_fit_start", &Callback::on_fit_start);
  check_sanity();
  // An epoch that was left at its limit still has its end before it. Epochs without a step would never end.
  while (limits_.train.count != 0 && !over_ && (!limits_.max_epochs || epoch_ < *limits_.max_epochs) &&
         (resumed_ || !limit_reached())) {
    run_epoch();
  }
  record_.bytes_sent += runtime_.bytes_sent() - bytes_before;
  hear_late_signal();
  call("on_fit_end", &Callback::on_fit_end);
  return agreed_;
}

// One that came with the last checkpoint: whatever would follow this training shall not begin.
void FitLoop::hear_late_signal() {
  if (agreed_.is_abrupt() || limits_.train.count == 0) return;
  ask_callbacks();
  const StopReason late = merge_reports(runtime_.all_gather(to_text({wish_, {}}))).stop;
  if (late.is_abrupt()) agreed_ = late;
}

bool FitLoop::limit_reached() const {
  return limits_.max_steps && session_.steps() >= static_cast<uint64_t>(*limits_.max_steps);
}

// A stream reads as far ahead as it is asked.
int64_t FitLoop::available(int64_t batches) {
  const Timed timed(train_.stream ? profile_ : nullptr, Profile::kData);
  return source_->available(batches);
}

Batch FitLoop::next_batch() {
  const Timed timed(profile_, Profile::kData);
  return source_->next();
}

void FitLoop::open_epoch() {
  const Timed timed(profile_, Profile::kData);
  const Shard shard{runtime_.rank(), runtime_.world_size(), seed_of_fit(runtime_.options().seed, fit_), epoch_};
  batches_ = resumed_ ? resumed_->loop->place.batches : 0;
  source_ = open_batches(train_, shard, Purpose::kTraining, limits_.train, "training data", batches_, runtime_.device(),
                         resumed_ ? resumed_->loop->stream : CallbackState());
  if (resumed_ && resumed_->loop->generator_before_ahead.defined()) {  // what was read ahead is read again
    set_generator_state(resumed_->loop->generator_before_ahead, resumed_->path.string());
  }
  // Only a vote in every step ends an epoch with the first rank that runs out of batches; where all have equally many
  // the end needs no vote, and the rest can wait for the step that is logged.
  session_.vote_every(has_equal_ranks() ? static_cast<uint64_t>(limits_.log_every_n_steps) : 1);
  const int64_t left = source_->available(train_.stream ? 1 : std::numeric_limits<int64_t>::max());
  source_->settle();
  epoch_length_ = train_.stream ? std::nullopt : std::optional(batches_ + left);
  validation_interval_ =
      validates_in_epoch() ? validation_interval(limits_.val_check_interval, epoch_length_) : std::nullopt;
  std::array<double, 2> ranks_without{batches_ + left > 0 ? 0.0 : 1.0, left > 0 ? 0.0 : 1.0};  // any batch; another one
  if (!has_equal_ranks()) runtime_.all_reduce_sum(ranks_without);
  out_of_data_ = ranks_without[1] > 0;
  if (ranks_without[0] > 0 && limits_.train.count != 0) {
    throw UserError("the training data gave no batch in epoch " + std::to_string(epoch_) +
                    " on at least one rank; every rank needs one in each epoch");
  }
}

void FitLoop::tell_module() {
  auto& place = detail::StepAccess::place(module_);
  place.step = step();
  place.epoch = epoch_;
  place.total_steps = total_steps();
}

void FitLoop::run_epoch() {
  open_epoch();
  tell_module();
  module_.train();
  call("on_train_epoch_start", &Callback::on_train_epoch_start);
  replicas_.follow_modes();
  board_.clear();
  validation_means_.clear();
  if (resumed_) continue_epoch();
  step_begun_ = Clock::now();
  const Module::Recording recording(module_, limits_.report ? &board_ : nullptr);
  while (!over_ && !out_of_data_) {
    const int64_t window = available(limits_.accumulate);
    if (window == 0) break;
    const int64_t batches_before = batches_;
    take_step(window);
    if (validation_interval_) validate_at_interval(batches_before);
    const bool ends = over_ || out_of_data_ || available(1) == 0;
    if (!ends) offer_save(SavePoint::kStep);
  }
  finish_epoch();
}

void FitLoop::take_step(int64_t window) {
  const TimedStep timed(profile_);
  {
    std::optional<NoSync> no_sync;
    if (window > 1) no_sync.emplace(session_);
    for (int64_t i = 1; i < window; ++i) run_micro_batch(window, /*last=*/false);
  }
  run_micro_batch(window, /*last=*/true);
  replicas_.check_registered();
  note_step(votes_);
  index_.reset();
}

void FitLoop::run_micro_batch(int64_t window, bool last) {
  const Batch batch = next_batch();
  const int64_t samples = batch.batch_size();
  index_ = batches_;
  batch_ = &batch;
  board_.begin_batch(samples);
  call("on_train_batch_start", &Callback::on_train_batch_start, batch);
  if (module_.automatic_optimization()) {
    run_phases(batch, window, last);
  } else {
    run_by_hand(batch);
  }
  ++batches_;
  record_.samples += static_cast<uint64_t>(samples);
  call("on_train_batch_end", &Callback::on_train_batch_end, batch);
  batch_ = nullptr;
}

void FitLoop::run_phases(const Batch& batch, int64_t window, bool last) {
  votes_ = {};
  for (size_t phase = 0; phase < session_.optimizers().size(); ++phase) {
    detail::StepAccess::set_phase(module_, phase);
    session_.begin(phase);
    MetricBoard* const board = limits_.report ? &board_ : nullptr;
    note_loss(replicas_.train(session_, board, batch, batches_, 1.0 / static_cast<double>(window)));
    if (last) vote();
    wait_for_gradients();
    call("on_after_backward", &Callback::on_after_backward);
    if (last) step_optimizer();
  }
}

void FitLoop::wait_for_gradients() {
  const Timed timed(profile_, Profile::kGradients);
  session_.end_backward();
}

void FitLoop::step_optimizer() {
  const Timed timed(profile_, Profile::kOptimizer);
  votes_ = votes_ | session_.step();
}

void FitLoop::run_by_hand(const Batch& batch) {
  session_.begin_all();
  replicas_.train_by_hand(batch, batches_);
  vote();
  votes_ = session_.exchange_votes();
}

void FitLoop::vote() {
  ask_callbacks();
  session_.vote({.stop = !wish_.is_none(), .out_of_data = available(1) == 0});
}

void FitLoop::ask_callbacks() {
  call("on_vote", &Callback::on_vote);
}

void FitLoop::note_loss(const at::Tensor& loss) {
  // A number that lies on the CPU costs nothing to look at; a device is asked at the logging interval only.
  auto value = value_at_hand(loss);
  const int64_t step = static_cast<int64_t>(session_.steps()) + 1;
  if (!value && step % limits_.log_every_n_steps == 0) value = loss.detach().to(at::kCPU, at::kDouble).item<double>();
  if (!value || std::isfinite(*value)) return;
  stop({.severity = StopReason::Severity::kFailure,
        .exit_reason = "loss_not_finite",
        .text = "the training loss is not finite at step " + std::to_string(step) + " on rank " +
                std::to_string(runtime_.rank()) +
                "; lower the learning rate, or look for a division by zero or a logarithm of zero"});
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
  tell_module();
  call("on_step_end", &Callback::on_step_end);
  if (session_.steps() % static_cast<uint64_t>(limits_.log_every_n_steps) == 0) log_step_values();
}

void FitLoop::log_step_values() {
  if (!limits_.report) return;
  StepValues values = board_.take_step_values();
  logged_steps_ = session_.steps();
  call("on_step_values", &Callback::on_step_values, values);
  for (const auto& [name, value] : values) record_.metrics[name] = value;
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
  agree_on_stop(wish_);
}

void FitLoop::validate() {
  const Timed timed(profile_, Profile::kValidation);
  session_.pause_for_evaluation();
  call("on_validation_start", &Callback::on_validation_start);
  const EvaluationPass pass{.what = Replicas::kValidation,
                            .loaders = validation_,
                            .limit = limits_.validation,
                            .name = "validation data",
                            .is_optional = true,
                            .interrupted = [this] {
                              ask_callbacks();
                              return wish_.is_abrupt();
                            }};
  const NamedTensors of_training = board_.metrics().take();
  const auto merged = evaluate(runtime_, replicas_, pass, [this] {
    ask_callbacks();
    return wish_;
  });
  board_.metrics().give_back(of_training);
  validation_means_ = merged.means;
  if (merged.lacks_step) leave_validation_out();
  adopt(merged.stop);
  if (agreed_.is_abrupt()) validation_means_.clear();
  for (const auto& [name, value] : validation_means_) record_.metrics[name] = value;
  call("on_validation_end", &Callback::on_validation_end, validation_means_);
}

// A DataModule may serve several modules, of which some have nothing to validate.
void FitLoop::leave_validation_out() {
  validates_ = false;
  validation_interval_.reset();
  if (!runtime_.is_first()) return;
  runtime_.log().warning("Validation is left out: there is validation data, but module '" + module_.name() +
                         "' has no validation_step");
}

// All ranks learn why one of them wants to stop. Collective.
void FitLoop::agree_on_stop(const StopReason& own) {
  adopt(merge_reports(runtime_.all_gather(to_text({own, {}}))).stop);
}

void FitLoop::adopt(const StopReason& agreed) {
  if (agreed.is_none()) return;
  if (agreed.severity > agreed_.severity) agreed_ = agreed;
  over_ = true;
}

void FitLoop::finish_epoch() {
  if (logged_steps_ != session_.steps()) log_step_values();
  LoopState before = state();
  ask_callbacks();
  const bool complete = out_of_data_ || source_->available(1) == 0;
  // A run that resumes at a limit takes no step either, which would bring the metrics: it needs their values.
  const auto merged = gather_report(runtime_, board_, {.stop = wish_}, complete || limit_reached());
  (before_stop_ ? *before_stop_ : before).metric_values = merged.values;
  adopt(merged.stop);
  if (!complete) offer_unfinished(before);
  if (complete) ++record_.epochs;
  for (const auto& [name, value] : merged.means) record_.metrics[name] = value;
  if (validates_in_epoch() && !limits_.val_check_interval && !merged.stop.is_abrupt()) validate();
  const bool finished = complete && !agreed_.is_abrupt();
  if (!finished) offer_unfinished(before);
  Metrics means = end_epoch_of_module();
  means.insert(merged.means.begin(), merged.means.end());
  means.insert(validation_means_.begin(), validation_means_.end());
  if (!agreed_.is_abrupt()) {
    call("on_train_epoch_end", &Callback::on_train_epoch_end, means);
    agree_on_stop(wish_);
  }
  if (finished) begin_next_epoch();
}

// Returns what the module has logged at the end of the epoch: the means over the ranks, unless training stops abruptly.
Metrics FitLoop::end_epoch_of_module() {
  MetricBoard board(MetricBoard::Pass::kEpochEnd);
  {
    const Module::Recording recording(module_, limits_.report ? &board : nullptr);
    in_hook(place_of("on_train_epoch_end"), [&] { module_.on_train_epoch_end(epoch_); });
  }
  if (agreed_.is_abrupt()) return {};
  Metrics means = merge_reports(runtime_.all_gather(to_text({.totals = board.totals()}))).means;
  for (const auto& [name, value] : means) record_.metrics[name] = value;
  return means;
}

void FitLoop::begin_next_epoch() {
  ++epoch_;
  batches_ = 0;
  board_.metrics().reset();
  board_.clear();
  validation_means_.clear();
  source_.reset();
  offer_save(SavePoint::kEpoch);
}

}  // namespace cohort
