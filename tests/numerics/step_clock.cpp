#include "step_clock.hpp"

#include <fstream>

#include <c10/core/impl/VirtualGuardImpl.h>

namespace numerics {
namespace {

double milliseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

}  // namespace

StepClock::StepClock(int64_t steps, c10::Device device)
    : steps_(static_cast<size_t>(steps)), measured_from_(steps_ / 2), device_(device) {
  begins_.reserve(steps_);
}

void StepClock::begin() {
  if (begins_.size() == measured_from_) wait();
  begins_.push_back(Clock::now());
}

void StepClock::end() {
  if (begins_.size() != steps_) return;
  wait();
  end_ = Clock::now();
  is_complete_ = true;
}

void StepClock::wait() const {
  if (device_.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index());
}

void StepClock::write(const std::filesystem::path& file) const {
  std::ofstream out(file);
  out << "{\"step_ms\": [";
  for (size_t i = 1; i < begins_.size(); ++i) {
    out << (i > 1 ? ", " : "") << milliseconds(begins_[i] - begins_[i - 1]);
  }
  out << ']';
  if (is_complete_) {
    const auto measured = static_cast<double>(steps_ - measured_from_);
    out << ", \"mean_ms\": " << milliseconds(end_ - begins_[measured_from_]) / measured;
  }
  out << "}\n";
}

}  // namespace numerics
