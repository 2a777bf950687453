#include "report/screen.hpp"

#include <chrono>

#include "report/progress_bar.hpp"
#include "report/results_text.hpp"

namespace cohort {
namespace {

bool wants_bar(const Options& options) {
  return options.log_format == host::LogFormat::kText && options.log_level <= host::LogLevel::kInfo;
}

class Screen final : public Callback {
 public:
  explicit Screen(Runtime& runtime) : log_(runtime.log()), bar_(wants_bar(runtime.options())) {}

  std::string name() const override { return "screen"; }
  void on_train_epoch_start(Fit& /*fit*/) override { epoch_begun_ = Clock::now(); }
  void on_step_end(Fit& fit) override { bar_.show(fit.epoch(), fit.batch(), fit.batches_per_epoch()); }
  void on_train_epoch_end(Fit& fit, const Metrics& means) override {
    bar_.clear();
    log_.info(epoch_line(fit.epoch(), means, std::chrono::duration<double>(Clock::now() - epoch_begun_).count()));
  }
  void on_fit_end(Fit& /*fit*/) override { bar_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;

  host::Log& log_;
  ProgressBar bar_;
  Clock::time_point epoch_begun_;
};

}  // namespace

std::shared_ptr<Callback> screen(Runtime& runtime) {
  return std::make_shared<Screen>(runtime);
}

}  // namespace cohort
