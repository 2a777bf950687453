// One schedule in a training that runs: the rates that it gives to the groups of its optimizer.
//
// Borrows the optimizer. Loop thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/optim/optimizer.h>

#include <cohort/callback.hpp>
#include <cohort/schedule.hpp>

namespace cohort {

std::vector<double> rates_of(const torch::optim::Optimizer& optimizer);
void set_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates);

class RunningSchedule {
 public:
  explicit RunningSchedule(const schedule::Timing& timing) : timing_(timing) {}
  virtual ~RunningSchedule() = default;
  RunningSchedule(const RunningSchedule&) = delete;
  RunningSchedule& operator=(const RunningSchedule&) = delete;

  /// Call once, before rate(). `initial` are the rates of the groups before the first step. Throws UserError, which
  /// begins with `subject`, if the length of the training is needed and not known.
  void begin(const Fit& fit, const std::string& subject, std::vector<double> initial);
  /// Returns the rate of a group for the step after so many of its optimizer, in this epoch.
  double rate(size_t group, uint64_t steps, uint64_t epoch);

  /// Returns the metric that the schedule follows, if it follows one.
  virtual std::optional<AwaitedMetric> awaited() const { return std::nullopt; }
  /// Call them in the moments of these names.
  virtual void on_validation_end(const Metrics& /*means*/) {}
  virtual void on_train_epoch_end(Fit& /*fit*/, const Metrics& /*means*/) {}
  /// Names in the state begin with `prefix`.
  virtual void save_state(CallbackState& /*state*/, const std::string& /*prefix*/) const {}
  virtual void load_state(const CallbackState& /*state*/, const std::string& /*prefix*/) {}

 protected:
  double initial(size_t group) const { return initial_[group]; }
  const std::vector<double>& initial() const { return initial_; }
  /// Returns the steps behind the warm-up, or the epochs; 0 if needs_length() is false.
  uint64_t length() const { return length_; }

 private:
  virtual bool needs_length() const { return false; }
  virtual void begin() {}
  /// Returns the rate without the warm-up; `done` counts what the schedule counts.
  virtual double rate_after(size_t group, uint64_t done) = 0;

  schedule::Timing timing_;
  std::vector<double> initial_;
  uint64_t length_ = 0;
};

std::unique_ptr<RunningSchedule> make_running(const Schedule& schedule, torch::optim::Optimizer& optimizer);

}  // namespace cohort
