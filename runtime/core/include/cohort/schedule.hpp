// How learning rates change during a training: what Module::configure_optimizers returns beside an optimizer.
//
//   return {torch::optim::AdamW(parameters(), 1e-3), cohort::schedule::cosine({.warmup_steps = 100})};
//
// A schedule is a factor on the rate that each parameter group begins with, as torch's LambdaLR: groups keep their
// ratio. Its value at 0 is that of the first step. Constant values, which the Trainer's fit runs; functions throw
// UserError for numbers that make no schedule.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>

#include <cohort/mode.hpp>

namespace cohort {
namespace schedule {

/// The unit of a schedule, its beginning and its end.
struct Timing {
  /// Optimizer steps in which the rate rises linearly from `warmup_start` times the schedule's first value to that
  /// value. Steps are counted from there on; epochs, and the values of a metric, from the beginning of the training.
  int64_t warmup_steps = 0;
  double warmup_start = 0;
  bool by_epoch = false;  ///< counts epochs, not the steps of the optimizer
  /// Steps or epochs, with the warm-up, after which the last value stays; absent: those of the training.
  std::optional<int64_t> length{};
};

/// A factor as a function of the steps or epochs that are done, and of how many there are.
struct Curve {
  std::function<double(uint64_t done, uint64_t length)> factor;
  bool has_length = false;  ///< else `length` is 0
};

/// Lowers the rate when a metric no longer improves, as torch's ReduceLROnPlateau. NaN is no improvement.
struct Plateau {
  enum class Threshold { kRelative, kAbsolute };

  std::string monitor = "val_loss";
  Mode mode = Mode::kMin;
  double factor = 0.1;
  int64_t patience = 10;  ///< values without improvement that change nothing
  double threshold = 1e-4;
  Threshold threshold_mode = Threshold::kRelative;
  int64_t cooldown = 0;  ///< values after a change that do not count
  double min_lr = 0;
  double eps = 1e-8;  ///< a smaller change of the rate is none
};

/// As torch's OneCycleLR with cosines, without its cycle of momentum; the rate of the optimizer is the highest one.
struct OneCycle {
  double rise = 0.3;              ///< part of the length in which the rate rises; below one step: it only falls
  double div_factor = 25;         ///< the highest rate divided by the first one
  double final_div_factor = 1e4;  ///< the first rate divided by the last one
};

/// Makes one of LibTorch's schedulers for an optimizer.
using MakeScheduler = std::function<std::unique_ptr<torch::optim::LRScheduler>(torch::optim::Optimizer&)>;

}  // namespace schedule

class Schedule {
 public:
  using Kind = std::variant<schedule::Curve, schedule::Plateau, schedule::MakeScheduler>;

  Schedule(Kind kind, schedule::Timing timing);

  const Kind& kind() const& { return kind_; }
  Kind kind() && { return std::move(kind_); }
  const schedule::Timing& timing() const& { return timing_; }
  schedule::Timing timing() && { return timing_; }

 private:
  Kind kind_;
  schedule::Timing timing_;
};

namespace schedule {

Schedule constant(Timing timing = {});
/// Falls along half a cosine, to 0 or `end_factor`.
Schedule cosine(Timing timing = {});
Schedule cosine(double end_factor, Timing timing = {});
/// Falls along a line, to 0 or `end_factor`.
Schedule linear(Timing timing = {});
Schedule linear(double end_factor, Timing timing = {});
/// Multiplies the rate by gamma every n steps or epochs, or at each of those that are named.
Schedule step(int64_t every, double gamma = 0.1, Timing timing = {});
Schedule multi_step(std::vector<int64_t> milestones, double gamma = 0.1, Timing timing = {});
/// Multiplies the rate by gamma in each step or epoch.
Schedule exponential(double gamma, Timing timing = {});
Schedule one_cycle(OneCycle options = {}, Timing timing = {});
Schedule plateau(Plateau options = {}, Timing timing = {});
/// A factor of one's own, at the steps or epochs that are done.
Schedule function(std::function<double(uint64_t done)> factor, Timing timing = {});

/// One of LibTorch's schedulers, or a class derived from LRScheduler, from the arguments behind its optimizer:
/// `libtorch<torch::optim::StepLR>(30, 0.1)`. A resumed run makes it anew and repeats its steps.
template <std::derived_from<torch::optim::LRScheduler> Scheduler, class... Args>
Schedule libtorch(Timing timing, Args... args) {
  return {MakeScheduler([=](torch::optim::Optimizer& optimizer) -> std::unique_ptr<torch::optim::LRScheduler> {
            return std::make_unique<Scheduler>(optimizer, args...);
          }),
          std::move(timing)};
}
template <std::derived_from<torch::optim::LRScheduler> Scheduler, class... Args>
Schedule libtorch(Args... args) {
  return libtorch<Scheduler>(Timing{}, std::move(args)...);
}

}  // namespace schedule
}  // namespace cohort
