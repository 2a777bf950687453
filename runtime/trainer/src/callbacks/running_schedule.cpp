// A curve needs no state: its rate follows from the steps done. A plateau keeps how often the rate was lowered. One of
// LibTorch's schedulers changes the rates that its optimizer has, so it is given those that it left there last; what it
// keeps cannot be read, so a resumed run repeats its steps.
#include "callbacks/running_schedule.hpp"

#include <algorithm>
#include <limits>

#include <cohort/callbacks.hpp>
#include <cohort/host/error.hpp>

#include "callbacks/state_numbers.hpp"

namespace cohort {
namespace {

class RunningCurve final : public RunningSchedule {
 public:
  RunningCurve(schedule::Curve curve, const schedule::Timing& timing)
      : RunningSchedule(timing), curve_(std::move(curve)) {}

 private:
  bool needs_length() const override { return curve_.has_length; }
  double rate_after(size_t group, uint64_t done) override { return initial(group) * curve_.factor(done, length()); }

  schedule::Curve curve_;
};

/// torch's ReduceLROnPlateau, with a warm-up.
class RunningPlateau final : public RunningSchedule {
 public:
  RunningPlateau(const schedule::Plateau& options, const schedule::Timing& timing)
      : RunningSchedule(timing), options_(options), metric_(options.monitor, "schedule::plateau") {}

  std::optional<AwaitedMetric> awaited() const override { return metric_.awaited(); }
  void on_validation_end(const Metrics& means) override {
    if (const auto value = metric_.at_validation(means)) look_at(*value);
  }
  void on_train_epoch_end(Fit& fit, const Metrics& means) override {
    if (const auto value = metric_.at_epoch(fit, means)) look_at(*value);
  }
  void save_state(CallbackState& state, const std::string& prefix) const override {
    metric_.save_state(state, prefix);
    state.set(prefix + "best", best_);
    state.set(prefix + "without_improvement", static_cast<double>(without_improvement_));
    state.set(prefix + "cooldown", static_cast<double>(cooldown_));
    state.set(prefix + "reductions", static_cast<double>(reductions_));
  }
  void load_state(const CallbackState& state, const std::string& prefix) override {
    if (!state.has(prefix + "best")) return;
    metric_.load_state(state, prefix);
    best_ = state.number(prefix + "best");
    without_improvement_ = count_in(state, prefix + "without_improvement");
    cooldown_ = count_in(state, prefix + "cooldown");
    reductions_ = count_in(state, prefix + "reductions");
  }

 private:
  bool is_better(double value) const {
    const bool is_relative = options_.threshold_mode == schedule::Plateau::Threshold::kRelative;
    if (options_.mode == Mode::kMin) {
      return value < (is_relative ? best_ * (1 - options_.threshold) : best_ - options_.threshold);
    }
    return value > (is_relative ? best_ * (1 + options_.threshold) : best_ + options_.threshold);
  }

  void look_at(double value) {
    if (is_better(value)) {
      best_ = value;
      without_improvement_ = 0;
    } else {
      ++without_improvement_;
    }
    if (cooldown_ > 0) {
      --cooldown_;
      without_improvement_ = 0;
    }
    if (without_improvement_ <= options_.patience) return;
    ++reductions_;
    cooldown_ = options_.cooldown;
    without_improvement_ = 0;
  }

  double rate_after(size_t group, uint64_t /*done*/) override {
    double rate = initial(group);
    for (int64_t i = 0; i < reductions_; ++i) {
      const double lower = std::max(rate * options_.factor, options_.min_lr);
      if (!(rate - lower > options_.eps)) break;
      rate = lower;
    }
    return rate;
  }

  schedule::Plateau options_;
  MonitoredMetric metric_;
  double best_ = (options_.mode == Mode::kMin ? 1 : -1) * std::numeric_limits<double>::infinity();
  int64_t without_improvement_ = 0, cooldown_ = 0, reductions_ = 0;
};

class RunningScheduler final : public RunningSchedule {
 public:
  RunningScheduler(schedule::MakeScheduler make, torch::optim::Optimizer& optimizer, const schedule::Timing& timing)
      : RunningSchedule(timing), make_(std::move(make)), optimizer_(optimizer) {}

 private:
  void begin() override {
    rates_ = initial();
    with_own_rates([this] { scheduler_ = make_(optimizer_); });
  }

  double rate_after(size_t group, uint64_t done) override {
    if (steps_ < done) {
      with_own_rates([&] {
        for (; steps_ < done; ++steps_) scheduler_->step();
      });
    }
    return rates_[group];
  }

  template <class Function>
  void with_own_rates(const Function& function) {
    const std::vector<double> others = rates_of(optimizer_);
    set_rates(optimizer_, rates_);
    function();
    rates_ = rates_of(optimizer_);
    set_rates(optimizer_, others);
  }

  schedule::MakeScheduler make_;
  torch::optim::Optimizer& optimizer_;
  std::unique_ptr<torch::optim::LRScheduler> scheduler_;
  std::vector<double> rates_;  // that it has left
  uint64_t steps_ = 0;
};

}  // namespace

std::vector<double> rates_of(const torch::optim::Optimizer& optimizer) {
  std::vector<double> rates;
  for (const auto& group : optimizer.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}

void set_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates) {
  for (size_t group = 0; group < rates.size(); ++group) optimizer.param_groups()[group].options().set_lr(rates[group]);
}

void RunningSchedule::begin(const Fit& fit, const std::string& subject, std::vector<double> initial) {
  initial_ = std::move(initial);
  if (needs_length()) {
    const auto epochs = fit.total_epochs();
    auto length =
        timing_.by_epoch ? (epochs ? std::optional(static_cast<uint64_t>(*epochs)) : std::nullopt) : fit.total_steps();
    if (timing_.length) length = static_cast<uint64_t>(*timing_.length);
    if (!length) {
      throw UserError(subject + " ends with the training, whose length in " +
                      (timing_.by_epoch ? "epochs is not known; give --max-epochs"
                                        : "steps is not known, as for a stream; give --max-steps") +
                      ", or the schedule's length");
    }
    const auto warmup = static_cast<uint64_t>(timing_.by_epoch ? 0 : timing_.warmup_steps);
    length_ = *length > warmup ? *length - warmup : 1;  // else training ends in the warm-up
  }
  begin();
}

double RunningSchedule::rate(size_t group, uint64_t steps, uint64_t epoch) {
  const auto warmup = static_cast<uint64_t>(timing_.warmup_steps);
  const double rate = rate_after(group, timing_.by_epoch ? epoch : steps - std::min(steps, warmup));
  if (steps >= warmup) return rate;
  const double part = static_cast<double>(steps) / static_cast<double>(warmup);
  return rate * (timing_.warmup_start + (1 - timing_.warmup_start) * part);
}

std::unique_ptr<RunningSchedule> make_running(const Schedule& schedule, torch::optim::Optimizer& optimizer) {
  const auto& timing = schedule.timing();
  if (const auto* const curve = std::get_if<schedule::Curve>(&schedule.kind())) {
    return std::make_unique<RunningCurve>(*curve, timing);
  }
  if (const auto* const plateau = std::get_if<schedule::Plateau>(&schedule.kind())) {
    return std::make_unique<RunningPlateau>(*plateau, timing);
  }
  return std::make_unique<RunningScheduler>(std::get<schedule::MakeScheduler>(schedule.kind()), optimizer, timing);
}

}  // namespace cohort
