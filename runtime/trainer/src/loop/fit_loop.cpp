#include "loop/fit_loop.hpp"

#include <array>
#include <cmath>

#include <cohort/host/error.hpp>

#include "loop/evaluation.hpp"
#include "loop/loss.hpp"
#include "metrics/scalar.hpp"

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

FitLoop::FitLoop(Runtime& runtime, RunRecord& record, const LoopLimits& limits, Module& module, DataModule& data,
                 Session& session)
    : runtime_(runtime),
      record_(record),
      limits_(limits),
      module_(module),
      session_(session),
      train_(data.train()),
      validation_(data.validation()),
      validates_(limits.validate && !validation_.empty() && limits.validation.count != 0),
      on_cpu_(runtime.device().is_cpu()),
      report_(runtime, limits) {}

StopReason FitLoop::run() {
  if (validates_) {  // a mistake in it is better found now than after an epoch
    const Shard shard{runtime_.rank(), runtime_.world_size(), runtime_.options().seed, 0};
    count_batches(validation_, shard, Purpose::kEvaluation, limits_.validation, "validation data");
  }
  const uint64_t bytes_before = runtime_.bytes_sent();
  if (limits_.train.count == 0) return agreed_;  // epochs without a step would never end
  while (!over_ && (!limits_.max_epochs || epoch_ < *limits_.max_epochs) && !limit_reached()) {
    run_epoch();
    ++epoch_;
  }
  record_.bytes_sent += runtime_.bytes_sent() - bytes_before;
  return agreed_;
}

bool FitLoop::limit_reached() const {
  return limits_.max_steps && session_.steps() >= static_cast<uint64_t>(*limits_.max_steps);
}

void FitLoop::open_epoch() {
  const Shard shard{runtime_.rank(), runtime_.world_size(), runtime_.options().seed, epoch_};
  source_ = open_batches(train_, shard, Purpose::kTraining, limits_.train, "training data");
  epoch_length_ = train_.stream ? std::nullopt : std::optional(source_->available(std::numeric_limits<int64_t>::max()));
  validation_interval_ = validates_ ? validation_interval(limits_.val_check_interval, epoch_length_) : std::nullopt;
  batches_ = 0;
  out_of_data_ = false;
  double without_batches = source_->available(1) > 0 ? 0 : 1;
  // The runtime's own samplers give every rank the same number of batches; streams and samplers of the user may not.
  if (train_.stream || train_.sampler) runtime_.all_reduce_sum({&without_batches, 1});
  if (without_batches > 0 && limits_.train.count != 0) {
    throw UserError("the training data gave no batch in epoch " + std::to_string(epoch_) +
                    " on at least one rank; every rank needs one in each epoch");
  }
}

void FitLoop::run_epoch() {
  const auto begun = Clock::now();
  open_epoch();
  module_.train();
  module_.on_train_epoch_start(epoch_);
  board_.clear();
  validation_means_.clear();
  step_begun_ = Clock::now();
  const Module::Recording recording(module_, limits_.report ? &board_ : nullptr);
  while (!over_ && !out_of_data_) {
    const int64_t window = source_->available(limits_.accumulate);
    if (window == 0) break;
    const int64_t batches_before = batches_;
    take_step(window);
    if (validation_interval_) validate_at_interval(batches_before);
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
  note_step(session_.step());
}

void FitLoop::run_micro_batch(int64_t window, bool last) {
  Batch batch = source_->next();
  if (!on_cpu_) batch = batch.to(runtime_.device());
  const int64_t samples = batch.batch_size();
  board_.begin_batch(samples);
  session_.begin();
  const Output output = module_.training_step(batch, batches_);
  const at::Tensor& loss = loss_of(output);
  note_loss(loss);
  if (last) {
    check_wishes();
    session_.vote({.stop = static_cast<bool>(wish_), .out_of_data = source_->available(1) == 0});
  }
  session_.backward(loss, 1.0 / static_cast<double>(window));
  ++batches_;
  record_.samples += static_cast<uint64_t>(samples);
}

void FitLoop::note_loss(const at::Tensor& loss) {
  // A number that lies on the CPU costs nothing to look at; a device is asked at the logging interval only.
  auto value = value_at_hand(loss);
  const int64_t step = static_cast<int64_t>(session_.steps()) + 1;
  if (!value && step % limits_.log_every_n_steps == 0) value = loss.detach().to(at::kCPU, at::kDouble).item<double>();
  if (value && !std::isfinite(*value)) wish_ = {StopReason::Kind::kNotFinite, step, runtime_.rank()};
}

void FitLoop::check_wishes() {
  if (wish_) return;
  if (const int signal = signals_.pending()) wish_ = {StopReason::Kind::kSignal, signal, runtime_.rank()};
  if (limits_.max_time && runtime_.is_first() && Clock::now() - begun_ >= *limits_.max_time) {
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
  validate();
  report_.validation(epoch_, session_.steps(), validation_means_);
  step_begun_ = Clock::now();
}

void FitLoop::validate() {
  session_.pause_for_evaluation();
  const EvaluationPass pass{&Module::validation_step, validation_, limits_.validation, "validation data",
                            [this] { return signals_.pending() != 0; }};
  const auto merged = evaluate(runtime_, module_, pass, [this] {
    check_wishes();
    return wish_;
  });
  session_.resume();
  validation_means_ = merged.means;
  if (merged.stop) {
    agreed_ = merged.stop;
    over_ = true;
  }
}

void FitLoop::finish_epoch(Clock::time_point begun) {
  if (limits_.report && reported_steps_ != session_.steps()) read_step_values();
  check_wishes();
  const auto merged = merge_reports(runtime_.all_gather(to_text({wish_, board_.totals()})));
  if (merged.stop) {
    agreed_ = merged.stop;
    over_ = true;
  }
  const bool complete = out_of_data_ || source_->available(1) == 0;
  if (complete) ++record_.epochs;
  const bool validate_now = validates_ && !limits_.val_check_interval && merged.stop.kind <= StopReason::Kind::kMaxTime;
  if (validate_now) validate();
  module_.on_train_epoch_end(epoch_);
  Metrics means = merged.means;
  means.insert(validation_means_.begin(), validation_means_.end());
  for (const auto& [name, value] : means) record_.metrics[name] = value;
  if (limits_.report) report_.epoch(epoch_, session_.steps(), means, seconds_between(begun, Clock::now()));
}

}  // namespace cohort
