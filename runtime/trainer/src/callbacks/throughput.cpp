#include <cohort/monitors.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

void Throughput::on_train_epoch_start(Fit& /*fit*/) {
  begun_.reset();
}

void Throughput::on_train_batch_start(Fit& /*fit*/, const Batch& /*batch*/) {
  if (!begun_) begun_ = Clock::now();
}

void Throughput::on_train_batch_end(Fit& /*fit*/, const Batch& batch) {
  samples_ += batch.batch_size();
}

void Throughput::on_step_end(Fit& /*fit*/) {
  const auto now = Clock::now();
  time_ += now - begun_.value_or(now);
  begun_ = now;  // reading the next batch belongs to the next step
  ++steps_;
}

void Throughput::on_step_values(Fit& fit, StepValues& values) {
  if (time_.count() <= 0) return;
  const double ranks = fit.runtime().world_size();
  values.emplace_back("samples_per_second", ranks * static_cast<double>(samples_) / time_.count());
  values.emplace_back("steps_per_second", static_cast<double>(steps_) / time_.count());
  time_ = {};
  samples_ = steps_ = 0;
}

}  // namespace cohort
