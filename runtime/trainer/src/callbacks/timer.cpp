#include <cohort/monitors.hpp>

#include "callbacks/state_numbers.hpp"

namespace cohort {

double Timer::total() const {
  const auto since = begun_ ? Clock::now() - *begun_ : Clock::duration(0);
  return (before_ + since).count();
}

void Timer::on_fit_end(Fit& /*fit*/) {
  before_ += Clock::now() - begun_.value();
  begun_.reset();
}

void Timer::on_validation_end(Fit& /*fit*/, const Metrics& /*means*/) {
  in_validation_ += Clock::now() - validation_begun_;
}

void Timer::save_state(CallbackState& state) const {
  state.set("total", total());
  state.set("in_validation", in_validation());
}

void Timer::load_state(const CallbackState& state) {
  before_ = std::chrono::duration<double>(amount_in(state, "total"));
  in_validation_ = std::chrono::duration<double>(amount_in(state, "in_validation"));
}

}  // namespace cohort
