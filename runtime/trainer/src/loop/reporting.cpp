#include "loop/reporting.hpp"

#include <cmath>

#include "checkpoint/loop_state.hpp"
#include "metrics/epoch_state.hpp"
#include "metrics/scalar.hpp"

namespace cohort {
namespace {

double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

double seconds_since(std::chrono::nanoseconds realtime) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now - realtime).count();
}

}  // namespace

Metrics Reporting::bar_values() const {
  Metrics values = on_bar_;
  if (loss_ && !values.empty()) values.emplace("loss", *loss_);  // unless the module logs its own
  return values;
}

void Reporting::publish(const Metrics& values, const MetricBoard& board) {
  for (const auto& [name, value] : values) {
    fit_.record.metrics[name] = value;
    if (board.is_on_bar(name)) on_bar_[name] = value;
  }
}

void Reporting::show_on_bar(const Metrics& values) {
  for (const auto& [name, value] : values) on_bar_[name] = value;
}

void Reporting::save(const StateWriter& state) {
  state.in(kMetricStateSection).put_all(board_.metrics().states());
  state.in(kMetricValueSection).put_all(board_.metrics().restored_values());
}

void Reporting::resume(const StateReader& state) {
  board_.restore(read_records(state));
  board_.metrics().restore(state.in(kMetricStateSection).tensors(), state.in(kMetricValueSection).metrics());
  if (is_logging_step(fit_.session.steps())) logged_steps_ = fit_.session.steps();
}

void Reporting::count_step(Clock::duration not_counted) {
  RunRecord& record = fit_.record;
  const auto now = Clock::now();
  ++record.steps;
  record.add_step_time(now - step_begun_);
  record.training_seconds += seconds_of(now - step_begun_);
  if (record.steps == 1) record.seconds_to_first_step = seconds_since(record.started) - seconds_of(not_counted);
  step_begun_ = now;
}

bool Reporting::is_logging_step(uint64_t step) const {
  return step % static_cast<uint64_t>(fit_.limits.log_every_n_steps) == 0;
}

std::optional<StopReason> Reporting::note_loss(const at::Tensor& loss, uint64_t step) {
  if (fit_.session.loss_scale()) return std::nullopt;  // a step whose gradients are not finite is skipped
  auto value = value_at_hand(loss);                    // costs nothing if it lies on the CPU
  const bool is_logged = is_logging_step(step);
  if (!value && is_logged) value = loss.detach().to(at::kCPU, at::kDouble).item<double>();
  if (is_logged && value && fit_.session.optimizers().size() == 1) loss_ = value;
  if (!value || std::isfinite(*value)) return std::nullopt;
  return StopReason{.severity = StopReason::Severity::kFailure,
                    .exit_reason = "loss_not_finite",
                    .text = "the training loss is not finite at step " + std::to_string(step) + " on rank " +
                            std::to_string(fit_.runtime.rank()) +
                            "; lower the learning rate, or look for a division by zero or a logarithm of zero"};
}

void Reporting::log_step() {
  if (is_logging_step(fit_.session.steps())) log_values();
}

void Reporting::log_last_step() {
  if (logged_steps_ != fit_.session.steps()) log_values();
}

void Reporting::log_values() {
  if (!fit_.limits.report) return;
  StepValues values = board_.take_step_values();
  for (const auto& [name, value] : values) {
    if (board_.is_on_bar(name)) on_bar_[name] = value;
  }
  logged_steps_ = fit_.session.steps();
  hooks_.add_step_values(values);
  for (const auto& [name, value] : values) fit_.record.metrics[name] = value;
}

}  // namespace cohort
