#include "loop/stopping.hpp"

#include <cohort/host/in_quotes.hpp>

#include "metrics/rank_report.hpp"

namespace cohort {
namespace {

/// Returns whether a reason is more severe than another one, or as severe, and final if the other is not.
bool is_graver(const StopReason& reason, const StopReason& than) {
  return reason.severity > than.severity || (reason.severity == than.severity && reason.is_final && !than.is_final);
}

}  // namespace

void Stopping::ask_to_stop(StopReason reason) {
  if (reason.is_none()) reason.severity = StopReason::Severity::kEnd;
  reason.step = fit_.session.steps();
  reason.callback = fit_.callbacks.called();
  if (is_graver(reason, wish_)) wish_ = std::move(reason);
}

bool Stopping::is_at_step_limit() const {
  return fit_.limits.max_steps && fit_.session.steps() >= static_cast<uint64_t>(*fit_.limits.max_steps);
}

bool Stopping::is_at_epoch_limit(int64_t epoch) const {
  return fit_.limits.max_epochs && epoch >= *fit_.limits.max_epochs;
}

void Stopping::adopt(const StopReason& merged) {
  if (merged.is_none()) return;
  if (is_graver(merged, agreed_)) agreed_ = merged;
  is_over_ = true;
}

void Stopping::agree(const StopReason& own) {
  adopt(merge_reports(fit_.runtime.all_gather(to_text({own, {}}))).stop);
}

void Stopping::adopt_late_signal() {
  const StopReason late = merge_reports(fit_.runtime.all_gather(to_text({wish_, {}}))).stop;
  if (late.is_abrupt()) agreed_ = late;
}

std::optional<TrainingEnd> Stopping::training_end(int64_t epoch) const {
  const auto at = [](const char* limit, int64_t value) {
    return TrainingEnd{limit, std::string(limit) + " " + std::to_string(value) + " is reached", {}, {}, value};
  };
  if (agreed_.is_abrupt()) return std::nullopt;
  if (!agreed_.is_none() && agreed_.is_final) {
    const Callback* const callback = fit_.callbacks.find(agreed_.callback);
    return TrainingEnd{host::on_one_line(agreed_.exit_reason),
                       host::on_one_line(agreed_.text),
                       agreed_.callback,
                       callback ? host::on_one_line(callback->settings()) : "",
                       {}};
  }
  if (is_at_step_limit()) return at("max_steps", *fit_.limits.max_steps);
  if (is_at_epoch_limit(epoch)) return at("max_epochs", *fit_.limits.max_epochs);
  return std::nullopt;
}

void Stopping::heed_end_of_resumed(const std::optional<TrainingEnd>& end, int64_t epoch) {
  if (end) agree(still_ended_by(*end));
  if (!fit_.runtime.is_first()) return;
  host::Log& log = fit_.runtime.log();
  if (is_over_) {
    log.info("Nothing is left to train: " + end->text +
             (end->callback.empty() ? "" : "; other settings of " + end->callback + " resume it"));
  } else if (is_at_step_limit() || is_at_epoch_limit(epoch)) {
    log.info("Nothing is left to train: the limits were reached before");
  } else if (end) {
    log.info("The training had ended: " + end->text + "; this run has other limits or settings and resumes it");
  }
}

StopReason Stopping::still_ended_by(const TrainingEnd& end) const {
  const Callback* const callback = fit_.callbacks.find(end.callback);
  if (end.limit || !callback || host::on_one_line(callback->settings()) != end.settings) return {};
  return {.severity = StopReason::Severity::kEnd,
          .exit_reason = end.exit_reason,
          .text = end.text,
          .step = fit_.session.steps(),
          .callback = end.callback};
}

}  // namespace cohort
