// On a terminal two status lines, one of the whole run and one of the epoch, drawn at most ten times a second. Anywhere
// else a line for each logged step, and one a minute without it.
#include "report/screen.hpp"

#include <array>
#include <chrono>
#include <cstdio>

#include "metrics/number_text.hpp"
#include "report/progress_text.hpp"
#include "report/results_text.hpp"

namespace cohort {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenDraws{100};
constexpr std::chrono::minutes kLongestSilence{1};

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

template <class Values>
std::string values_text(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values) text += "  " + name + " " + number_text(value, 4);
  return text;
}

class Screen final : public Callback {
 public:
  explicit Screen(Runtime& runtime) : log_(runtime.log()), draws_(log_.has_status()) {}
  ~Screen() override { log_.show_status({}); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  std::string name() const override { return "screen"; }
  void on_fit_start(Fit& fit) override {
    fit_begun_ = line_written_ = Clock::now();
    first_step_ = static_cast<int64_t>(fit.step());
  }
  void on_train_epoch_start(Fit& fit) override {
    epoch_begun_ = Clock::now();
    first_batch_ = fit.batch();
    values_.clear();
  }
  void on_step_end(Fit& fit) override {
    const auto now = Clock::now();
    if (!draws_ && now - line_written_ >= kLongestSilence) write_line(fit, {});
    if (!draws_ || now < next_draw_) return;
    next_draw_ = now + kBetweenDraws;
    draw(fit);
  }
  void on_step_values(Fit& fit, StepValues& values) override {
    values_ = values;
    if (!draws_) write_line(fit, values);
  }
  void on_validation_start(Fit& /*fit*/) override { log_.show_status({}); }
  void on_validation_end(Fit& /*fit*/, const Metrics& means) override { validation_ = means; }
  void on_save_point(Fit& fit, SavePoint point) override {
    if (point != SavePoint::kStep || validation_.empty()) return;
    log_.info("step " + std::to_string(fit.step()) + ": " + metrics_text(validation_));
    validation_.clear();
  }
  void on_train_epoch_end(Fit& fit, const Metrics& means) override {
    validation_.clear();
    log_.show_status({});
    log_.info(epoch_line(fit.epoch(), means, seconds_since(epoch_begun_)));
    line_written_ = Clock::now();
  }
  void on_fit_end(Fit& /*fit*/) override { log_.show_status({}); }

 private:
  int64_t steps_done(const Fit& fit) const { return static_cast<int64_t>(fit.step()) - first_step_; }
  double run_seconds_left(const Fit& fit) const {
    const auto total = fit.total_steps();
    return total ? seconds_left(steps_done(fit), static_cast<int64_t>(*total) - first_step_, seconds_since(fit_begun_))
                 : -1;
  }
  std::string rate_text(const Fit& fit) const {
    std::array<char, 32> text{};
    const double seconds = seconds_since(epoch_begun_);
    const double rate = seconds > 0 ? static_cast<double>(fit.batch() - first_batch_) / seconds : 0;
    std::snprintf(text.data(), text.size(), rate < 100 ? "%.3g it/s" : "%.0f it/s", rate);
    return text.data();
  }

  void draw(const Fit& fit) {
    const auto steps = static_cast<int64_t>(fit.total_steps().value_or(0));
    log_.show_status({"run       " + bar_text(static_cast<int64_t>(fit.step()), steps) + " steps, " +
                          clock_text(seconds_since(fit_begun_)) + " passed, " + clock_text(run_seconds_left(fit)) +
                          " left",
                      line_of_epoch(fit)});
  }

  // Values that were chosen shall not be cut off: bar and clock make room for them.
  std::string line_of_epoch(const Fit& fit) const {
    const auto epochs = fit.total_epochs();
    const std::string epoch = "epoch " + std::to_string(fit.epoch()) + (epochs ? "/" + std::to_string(*epochs) : "");
    const int64_t length = fit.batches_per_epoch().value_or(0);
    const Metrics chosen = fit.bar_values();
    if (!chosen.empty()) {
      return epoch + " " + std::to_string(fit.batch()) + (length > 0 ? "/" + std::to_string(length) : "") + " " +
             rate_text(fit) + values_text(chosen);
    }
    const double left = seconds_left(fit.batch() - first_batch_, length - first_batch_, seconds_since(epoch_begun_));
    return epoch + " " + bar_text(fit.batch(), length) + " " + rate_text(fit) + ", " + clock_text(left) + " left" +
           values_text(values_);
  }

  void write_line(const Fit& fit, const StepValues& values) {
    const auto total = fit.total_steps();
    log_.info("epoch " + std::to_string(fit.epoch()) + "  step " + std::to_string(fit.step()) +
              (total ? "/" + std::to_string(*total) : "") + values_text(values) + "  " + rate_text(fit) + "  " +
              clock_text(run_seconds_left(fit)) + " left");
    line_written_ = Clock::now();
  }

  host::Log& log_;
  bool draws_;
  Clock::time_point fit_begun_, epoch_begun_, line_written_, next_draw_;
  int64_t first_step_ = 0, first_batch_ = 0;  // that this run has not done itself
  StepValues values_;                         // the latest
  Metrics validation_;                        // within an epoch, not shown yet
};

}  // namespace

std::shared_ptr<Callback> screen(Runtime& runtime) {
  return std::make_shared<Screen>(runtime);
}

EvaluationProgress::EvaluationProgress(Runtime& runtime, std::string name, std::optional<int64_t> batches)
    : log_(runtime.log()),
      is_shown_(runtime.is_first() && !runtime.options().barebones),
      name_(std::move(name)),
      batches_(batches.value_or(0)),
      begun_(Clock::now()),
      next_(begun_ + (log_.has_status() ? Clock::duration(kBetweenDraws) : Clock::duration(kLongestSilence))) {}

EvaluationProgress::~EvaluationProgress() {
  if (is_shown_) log_.show_status({});
}

void EvaluationProgress::show(int64_t done) {
  const auto now = Clock::now();
  if (!is_shown_ || now < next_) return;
  const std::string text = name_ + " " + bar_text(done, batches_) + ", " +
                           clock_text(seconds_left(done, batches_, seconds_since(begun_))) + " left";
  if (log_.has_status()) {
    log_.show_status({text});
    next_ = now + kBetweenDraws;
  } else {
    log_.info(text);
    next_ = now + kLongestSilence;
  }
}

}  // namespace cohort
