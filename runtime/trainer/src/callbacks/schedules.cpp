// Sets the learning rates before each step of an optimizer.
//
// Steps are counted for each optimizer, because a module that steps by hand may step one more often than another. What
// is kept in a checkpoint are these counts and the rates of the beginning: the optimizer's own are those of the moment.
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/monitors.hpp>

#include "callbacks/built_in.hpp"
#include "callbacks/running_schedule.hpp"
#include "callbacks/state_numbers.hpp"
#include "metrics/number_text.hpp"

namespace cohort {
namespace {

/// One optimizer with its schedules.
class ScheduledOptimizer {
 public:
  ScheduledOptimizer(const Optimizers& optimizers, size_t phase)
      : optimizer_(optimizers[phase]), prefix_(std::to_string(phase) + ".") {
    const std::string& name = optimizers.name(phase);
    name_ = "optimizer " + (name.empty() ? std::to_string(phase) : host::in_quotes(name));
    for (const Schedule& schedule : optimizers.schedules(phase))
      schedules_.push_back(make_running(schedule, optimizer_));
  }

  /// `steps` were done before, if no checkpoint says it.
  void take_initial_rates(uint64_t steps);
  void begin(const Fit& fit) const;
  void set_rates_of_next_step(int64_t epoch) const;
  void count_step() { ++steps_; }
  void restore_initial_rates() { set_rates(optimizer_, initial_); }

  const std::vector<std::unique_ptr<RunningSchedule>>& schedules() const { return schedules_; }
  void save_state(CallbackState& state) const;
  void load_state(const CallbackState& state);

 private:
  std::string prefix_of(size_t schedule) const { return prefix_ + std::to_string(schedule) + "."; }

  torch::optim::Optimizer& optimizer_;
  std::string name_, prefix_;
  std::vector<std::unique_ptr<RunningSchedule>> schedules_;  // of all groups, or by group
  std::vector<double> initial_;                              // by group; empty until it is known
  uint64_t steps_ = 0;
};

void ScheduledOptimizer::take_initial_rates(uint64_t steps) {
  if (!initial_.empty() && steps_ > steps) {  // those of before, which a scheduler of LibTorch would repeat
    throw UserError("the checkpoint counts " + std::to_string(steps_) + " steps of " + name_ +
                    ", and the training has " + std::to_string(steps) + "; resume from another checkpoint");
  }
  if (!initial_.empty()) return;
  try {
    initial_ = rates_of(optimizer_);
  } catch (const c10::Error&) {
    throw UserError(
        name_ + " has a schedule and no learning rate that could be set; override get_lr and set_lr of its options");
  }
  steps_ = steps;
}

void ScheduledOptimizer::begin(const Fit& fit) const {
  for (const auto& schedule : schedules_) schedule->begin(fit, "the learning-rate schedule of " + name_, initial_);
}

void ScheduledOptimizer::set_rates_of_next_step(int64_t epoch) const {
  std::vector<double> rates;
  for (size_t group = 0; group < initial_.size(); ++group) {
    RunningSchedule& schedule = *schedules_[schedules_.size() == 1 ? 0 : group];
    rates.push_back(schedule.rate(group, steps_, static_cast<uint64_t>(epoch)));
    if (std::isfinite(rates.back()) && rates.back() >= 0) continue;
    throw UserError("the learning-rate schedule of " + name_ + " gives " + number_text(rates.back()) + " after " +
                    std::to_string(steps_) + " steps; a rate is a finite number that is not below 0");
  }
  set_rates(optimizer_, rates);
}

void ScheduledOptimizer::save_state(CallbackState& state) const {
  state.set(prefix_ + "initial", at::tensor(initial_, at::kDouble));
  state.set(prefix_ + "steps", static_cast<double>(steps_));
  for (size_t i = 0; i < schedules_.size(); ++i) schedules_[i]->save_state(state, prefix_of(i));
}

void ScheduledOptimizer::load_state(const CallbackState& state) {
  if (!state.has(prefix_ + "initial")) return;  // it had no schedule then
  const at::Tensor& initial = state.tensor(prefix_ + "initial");
  const auto groups = std::ssize(optimizer_.param_groups());
  if (initial.scalar_type() != at::kDouble || initial.numel() != groups) {
    throw UserError("the checkpoint does not have the initial learning rate of each of the " + std::to_string(groups) +
                    " parameter groups of " + name_ + "; resume from another checkpoint");
  }
  const auto* const rates = initial.const_data_ptr<double>();
  initial_.assign(rates, rates + initial.numel());
  steps_ = static_cast<uint64_t>(count_in(state, prefix_ + "steps"));
  for (size_t i = 0; i < schedules_.size(); ++i) schedules_[i]->load_state(state, prefix_of(i));
}

class Schedules final : public Callback {
 public:
  explicit Schedules(const Optimizers& optimizers) {
    for (size_t phase = 0; phase < optimizers.size(); ++phase) {
      if (!optimizers.schedules(phase).empty()) scheduled_.try_emplace(phase, optimizers, phase);
    }
  }

  std::string name() const override { return "schedules"; }
  void on_fit_start(Fit& fit) override {
    for (auto& [phase, optimizer] : scheduled_) optimizer.take_initial_rates(fit.step());
  }
  std::vector<AwaitedMetric> awaited_metrics() const override {
    std::vector<AwaitedMetric> awaited;
    for (const auto& [phase, optimizer] : scheduled_) {
      for (const auto& schedule : optimizer.schedules()) {
        if (const auto metric = schedule->awaited()) awaited.push_back(*metric);
      }
    }
    return awaited;
  }
  // The length of the training is known as soon as the data of an epoch is.
  void on_train_epoch_start(Fit& fit) override {
    if (std::exchange(has_begun_, true)) return;
    for (auto& [phase, optimizer] : scheduled_) optimizer.begin(fit);
  }
  // The model, and strategies that read the rate while gradients arrive, see that of the coming step.
  void on_train_batch_start(Fit& fit, const Batch& /*batch*/) override {
    for (auto& [phase, optimizer] : scheduled_) optimizer.set_rates_of_next_step(fit.epoch());
  }
  void on_before_optimizer_step(Fit& fit, size_t phase) override {
    const auto found = scheduled_.find(phase);
    if (found == scheduled_.end()) return;
    found->second.set_rates_of_next_step(fit.epoch());  // by hand there may be several steps in a batch
    found->second.count_step();
  }
  void on_validation_end(Fit& /*fit*/, const Metrics& means) override {
    for (auto& [phase, optimizer] : scheduled_) {
      for (const auto& schedule : optimizer.schedules()) schedule->on_validation_end(means);
    }
  }
  void on_train_epoch_end(Fit& fit, const Metrics& means) override {
    for (auto& [phase, optimizer] : scheduled_) {
      for (const auto& schedule : optimizer.schedules()) schedule->on_train_epoch_end(fit, means);
    }
  }
  void on_fit_end(Fit& /*fit*/) override {
    for (auto& [phase, optimizer] : scheduled_) optimizer.restore_initial_rates();
  }
  void save_state(CallbackState& state) const override {
    for (const auto& [phase, optimizer] : scheduled_) optimizer.save_state(state);
  }
  void load_state(const CallbackState& state) override {
    for (auto& [phase, optimizer] : scheduled_) optimizer.load_state(state);
  }

 private:
  std::map<size_t, ScheduledOptimizer> scheduled_;  // by phase
  bool has_begun_ = false;
};

}  // namespace

std::vector<std::shared_ptr<Callback>> callbacks_of_schedules(const Optimizers& optimizers,
                                                              const std::vector<std::shared_ptr<Callback>>& given) {
  if (!optimizers.have_schedules()) return {};
  std::vector<std::shared_ptr<Callback>> callbacks{std::make_shared<Schedules>(optimizers)};
  auto monitor = std::make_shared<LearningRateMonitor>();
  const auto is_one = [&](const auto& callback) { return callback->name() == monitor->name(); };
  if (std::ranges::none_of(given, is_one)) callbacks.push_back(std::move(monitor));
  return callbacks;
}

}  // namespace cohort
