#include <cohort/schedule.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw UserError(std::string("a learning-rate schedule: ") + what);
}

bool is_factor(double value) {
  return std::isfinite(value) && value >= 0;
}

/// Returns the value between two others on half a cosine; `part` is from 0 to 1.
double on_cosine(double from, double to, double part) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

double part_of(uint64_t done, uint64_t length) {
  return length == 0 ? 1 : static_cast<double>(std::min(done, length)) / static_cast<double>(length);
}

// As in torch, the rise ends at a step that may be a fraction, and may lie before the first one: then the rate falls
// from there on.
double one_cycle_factor(const schedule::OneCycle& shape, uint64_t done, uint64_t length) {
  const double first = 1 / shape.div_factor, last = first / shape.final_div_factor;
  const double end = static_cast<double>(length) - 1, top = shape.rise * static_cast<double>(length) - 1;
  const double at = std::min(static_cast<double>(done), end);
  if (at <= top) return top > 0 ? on_cosine(first, 1, at / top) : 1;
  return on_cosine(1, last, (at - top) / (end - top));
}

}  // namespace

Schedule::Schedule(Kind kind, schedule::Timing timing) : kind_(std::move(kind)), timing_(timing) {
  require(timing.warmup_steps >= 0, "warmup_steps cannot be below 0");
  require(is_factor(timing.warmup_start), "warmup_start is a finite factor that is not below 0");
  require(!timing.length || *timing.length > 0, "length must be above 0");
  const auto* const curve = std::get_if<schedule::Curve>(&kind_);
  require(!timing.length || (curve && curve->has_length), "only cosine, linear and one_cycle have a length");
  require(!timing.length || timing.by_epoch || *timing.length > timing.warmup_steps,
          "length counts the warm-up, too, and must be above warmup_steps");
  require(!timing.by_epoch || !std::holds_alternative<schedule::Plateau>(kind_),
          "plateau counts values of its metric; leave by_epoch out");
}

namespace schedule {

Schedule constant(Timing timing) {
  return {Curve{[](uint64_t, uint64_t) { return 1.0; }}, timing};
}

Schedule cosine(Timing timing) {
  return cosine(0, timing);
}

Schedule cosine(double end_factor, Timing timing) {
  require(is_factor(end_factor), "the end factor of cosine is finite and not below 0");
  return {Curve{[=](uint64_t done, uint64_t length) { return on_cosine(1, end_factor, part_of(done, length)); }, true},
          timing};
}

Schedule linear(Timing timing) {
  return linear(0, timing);
}

Schedule linear(double end_factor, Timing timing) {
  require(is_factor(end_factor), "the end factor of linear is finite and not below 0");
  return {Curve{[=](uint64_t done, uint64_t length) { return 1 + (end_factor - 1) * part_of(done, length); }, true},
          timing};
}

Schedule step(int64_t every, double gamma, Timing timing) {
  require(every > 0, "step(n) needs an n above 0");
  require(is_factor(gamma), "gamma is a finite factor that is not below 0");
  const auto width = static_cast<uint64_t>(every);
  return {Curve{[=](uint64_t done, uint64_t) { return std::pow(gamma, done / width); }}, timing};
}

Schedule multi_step(std::vector<int64_t> milestones, double gamma, Timing timing) {
  require(is_factor(gamma), "gamma is a finite factor that is not below 0");
  return {Curve{[=, milestones = std::move(milestones)](uint64_t done, uint64_t) {
            const auto passed = [&](int64_t milestone) { return milestone <= static_cast<int64_t>(done); };
            return std::pow(gamma, std::ranges::count_if(milestones, passed));
          }},
          timing};
}

Schedule exponential(double gamma, Timing timing) {
  require(is_factor(gamma), "gamma is a finite factor that is not below 0");
  return {Curve{[=](uint64_t done, uint64_t) { return std::pow(gamma, done); }}, timing};
}

Schedule one_cycle(OneCycle options, Timing timing) {
  require(options.rise >= 0 && options.rise <= 1, "rise of one_cycle is a part of the length, from 0 to 1");
  const auto is_divisor = [](double value) { return std::isfinite(value) && value > 0; };
  require(is_divisor(options.div_factor) && is_divisor(options.final_div_factor),
          "div_factor and final_div_factor of one_cycle are finite and above 0");
  return {Curve{[=](uint64_t done, uint64_t length) { return one_cycle_factor(options, done, length); }, true}, timing};
}

Schedule plateau(Plateau options, Timing timing) {
  require(options.factor >= 0 && options.factor < 1, "the factor of plateau must be in [0, 1)");
  require(options.patience >= 0 && options.cooldown >= 0, "patience and cooldown of plateau cannot be below 0");
  require(is_factor(options.threshold) && is_factor(options.min_lr) && is_factor(options.eps),
          "threshold, min_lr and eps of plateau are finite and not below 0");
  return {std::move(options), timing};
}

Schedule function(std::function<double(uint64_t)> factor, Timing timing) {
  require(static_cast<bool>(factor), "the function is empty");
  return {Curve{[factor = std::move(factor)](uint64_t done, uint64_t) { return factor(done); }}, timing};
}

}  // namespace schedule
}  // namespace cohort
