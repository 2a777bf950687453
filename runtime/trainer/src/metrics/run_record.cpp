#include <cohort/run_record.hpp>

namespace cohort {

void RunRecord::add_step_time(std::chrono::nanoseconds time) {
  const float milliseconds = std::chrono::duration<float, std::milli>(time).count();
  if (step_ms.size() < kStepTimes) {
    step_ms.reserve(kStepTimes);
    step_ms.push_back(milliseconds);
  } else {
    step_ms[steps % kStepTimes] = milliseconds;
  }
}

}  // namespace cohort
