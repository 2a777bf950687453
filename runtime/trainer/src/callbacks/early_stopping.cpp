#include <cmath>

#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>

#include "callbacks/state_numbers.hpp"
#include "metrics/number_text.hpp"

namespace cohort {

EarlyStopping::EarlyStopping(std::string monitor, Options options, std::string asked_by)
    : metric_(std::move(monitor), asked_by), options_(options) {
  if (options.patience < 0 || options.min_delta < 0) {
    throw UserError(asked_by + ": patience and min_delta cannot be below 0");
  }
}

std::string EarlyStopping::settings() const {
  return metric_.name() + ", patience=" + std::to_string(options_.patience) +
         ", mode=" + (options_.mode == Mode::kMin ? "min" : "max") + ", min_delta=" + number_text(options_.min_delta);
}

// An earlier training of the program, maybe of another model, is no measure for this one.
void EarlyStopping::on_fit_start(Fit& fit) {
  if (fit.step() > 0) return;  // resumed
  best_ = std::numeric_limits<double>::quiet_NaN();
  without_improvement_ = 0;
}

void EarlyStopping::on_validation_end(Fit& fit, const Metrics& means) {
  if (const auto value = metric_.at_validation(means)) look_at(fit, *value);
}

void EarlyStopping::on_train_epoch_end(Fit& fit, const Metrics& means) {
  if (const auto value = metric_.at_epoch(fit, means)) look_at(fit, *value);
}

void EarlyStopping::look_at(Fit& fit, double value) {
  const auto stop = [&](const std::string& text) {
    fit.stop({.exit_reason = "early_stopping", .text = metric_.name() + " " + text});
  };
  if (!std::isfinite(value)) return stop("is " + number_text(value));
  const double gain = options_.mode == Mode::kMin ? best_ - value : value - best_;
  if (std::isnan(best_) || gain > options_.min_delta) {
    best_ = value;
    without_improvement_ = 0;
    return;
  }
  if (++without_improvement_ < options_.patience) return;
  stop("has not improved " + std::to_string(without_improvement_) + " time(s) in a row; its best value is " +
       number_text(best_));
}

void EarlyStopping::save_state(CallbackState& state) const {
  metric_.save_state(state);
  state.set("best", best_);
  state.set("without_improvement", static_cast<double>(without_improvement_));
}

void EarlyStopping::load_state(const CallbackState& state) {
  metric_.load_state(state);
  best_ = state.number("best");
  without_improvement_ = count_in(state, "without_improvement");
}

}  // namespace cohort
