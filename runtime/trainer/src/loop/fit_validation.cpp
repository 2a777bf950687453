// Validation of a training: within an epoch, and at its end.
#include <cohort/module.hpp>

#include "failure/failure.hpp"
#include "loop/evaluation.hpp"
#include "loop/fit_loop.hpp"
#include "loop/gathered_report.hpp"

namespace cohort {

void FitLoop::validate_at_interval(int64_t batches_before) {
  if (batches_before / *validation_interval_ == batches_ / *validation_interval_) return;
  validate_within_epoch();
  step_begun_ = Clock::now();
}

void FitLoop::validate_within_epoch() {
  LoopState before = state(/*validation_due=*/true);
  if (keeps_steps_) {
    kept_.emplace(session_, before);
    // A run that goes on from there has no step left that would bring the metric objects.
    if (available(1) == 0) kept_->set_metric_values(gather_report(runtime_, board_, {}, /*is_complete=*/true).values);
  }
  validate();
  if (over_) before_stop_ = std::move(before);
  agree_on_stop(wish_);
}

// Callbacks that have changed weights for the validation change them back, also if it fails.
MergedReport FitLoop::evaluate_or_abandon(const EvaluationPass& pass) {
  const NamedTensors of_training = board_.metrics().take();
  try {
    call("on_validation_start", &Callback::on_validation_start);
    const MergedReport merged = evaluate(runtime_, replicas_, pass, [this] {
      ask_callbacks();
      return wish_;
    });
    board_.metrics().give_back(of_training);
    return merged;
  } catch (const std::exception&) {
    if (tells_of_lost_device()) throw;
    board_.metrics().give_back(of_training);
    abandon_validation();
    throw;
  }
}

// What a callback throws must not hide why the validation has failed.
void FitLoop::abandon_validation() {
  try {
    call("on_validation_abandoned", &Callback::on_validation_abandoned);
  } catch (const std::exception& another) {
    runtime_.log().warning(another.what());
  }
}

void FitLoop::validate() {
  const Timed timed(profile_, Profile::kValidation);
  session_.pause_for_evaluation();
  const EvaluationPass pass{.what = Replicas::kValidation,
                            .loaders = validation_,
                            .limit = limits_.validation,
                            .name = "validation data",
                            .is_optional = true,
                            .interrupted = [this] {
                              ask_callbacks();
                              return wish_.is_abrupt();
                            }};
  const auto merged = evaluate_or_abandon(pass);
  validation_means_ = merged.means;
  for (const auto& [name, value] : merged.on_bar) on_bar_[name] = value;
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

}  // namespace cohort
