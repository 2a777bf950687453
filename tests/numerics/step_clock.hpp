// Notes when steps begin, and how long those of the later half took until the device was done with them.
#pragma once

#include <chrono>
#include <cohort/callback.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace numerics {

class StepClock final : public cohort::Callback {
 public:
  /// For a training of so many steps on the device.
  StepClock(int64_t steps, c10::Device device);

  /// Notes that a step begins. Before the first step of the later half it waits for the device.
  void begin();
  /// Notes that a step has been given to the device. Behind the last one it waits for the device.
  void end();

  std::string name() const override { return "step_clock"; }
  void on_train_batch_start(cohort::Fit&, const cohort::Batch&) override { begin(); }
  void on_train_batch_end(cohort::Fit&, const cohort::Batch&) override { end(); }

  /// Writes a JSON object. `step_ms` has the milliseconds from each step's begin to the next one's, as the host saw
  /// them: one less than there were steps. `mean_ms` is the time of the later half, from a device without work to a
  /// device without work, divided by its steps; it is left out if training ended before the last step.
  void write(const std::filesystem::path& file) const;

 private:
  using Clock = std::chrono::steady_clock;
  void wait() const;

  size_t steps_, measured_from_;
  c10::Device device_;
  std::vector<Clock::time_point> begins_;
  Clock::time_point end_;
  bool is_complete_ = false;
};

}  // namespace numerics
