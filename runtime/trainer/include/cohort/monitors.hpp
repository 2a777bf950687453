// Callbacks that measure: rates, times, and what a training takes of the machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <cohort/callback.hpp>

namespace cohort {

/// Logs the learning rate of each optimizer and parameter group: "lr"; "lr-generator" for an optimizer with a name,
/// "lr-1" for the optimizer 1 of several, "lr/pg1" for the group 1 of several. A fit with schedules has it by itself.
class LearningRateMonitor final : public Callback {
 public:
  std::string name() const override { return "learning_rate_monitor"; }
  void on_step_values(Fit& fit, StepValues& values) override;
};

/// Logs "samples_per_second", of all ranks, and "steps_per_second": the mean since the values before. Validation and
/// checkpoints between two steps do not count.
class Throughput final : public Callback {
 public:
  std::string name() const override { return "throughput"; }
  void on_train_epoch_start(Fit& fit) override;
  void on_train_batch_end(Fit& fit, const Batch& batch) override;
  void on_step_end(Fit& fit) override;
  void on_step_values(Fit& fit, StepValues& values) override;
  void on_validation_start(Fit& /*fit*/) override { begun_.reset(); }
  void on_train_batch_start(Fit& fit, const Batch& batch) override;

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> begun_;  // of the step that is being taken
  std::chrono::duration<double> time_{0};   // of steps since the last values
  int64_t samples_ = 0, steps_ = 0;
};

/// Logs what the training takes of rank 0's machine: "host_memory_mib" (the process in main memory), "cpu_percent" (100
/// for each core that is busy), and for a device "device_memory_mib" and "device_memory_peak_mib", which are what
/// tensors hold now, and held at most so far.
class DeviceStatistics final : public Callback {
 public:
  std::string name() const override { return "device_statistics"; }
  void on_fit_start(Fit& fit) override;
  void on_step_values(Fit& fit, StepValues& values) override;

 private:
  std::chrono::steady_clock::time_point at_;  // of the last values
  double cpu_seconds_ = 0;                    // until then
};

/// Measures how long trainings last, with those that they go on from.
class Timer final : public Callback {
 public:
  /// In seconds: from the start of fit to its end or to now, and the part of it that was spent in validation.
  double total() const;
  double in_validation() const { return in_validation_.count(); }

  std::string name() const override { return "timer"; }
  void on_fit_start(Fit& /*fit*/) override { begun_ = Clock::now(); }
  void on_fit_end(Fit& fit) override;
  void on_validation_start(Fit& /*fit*/) override { validation_begun_ = Clock::now(); }
  void on_validation_end(Fit& fit, const Metrics& means) override;
  void save_state(CallbackState& state) const override;
  void load_state(const CallbackState& state) override;

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> begun_;
  Clock::time_point validation_begun_;
  std::chrono::duration<double> before_{0}, in_validation_{0};
};

}  // namespace cohort
