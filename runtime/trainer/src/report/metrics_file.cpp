#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>

#include "loggers/csv_table.hpp"
#include "report/fit_report.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTableBytes = 1 << 30;

class MetricsFile final : public Callback {
 public:
  explicit MetricsFile(fs::path file) : file_(std::move(file)) {}

  std::string name() const override { return "metrics_file"; }
  void on_fit_start(Fit& fit) override {
    std::error_code ignored;
    if (fit.step() == 0 || !fs::exists(file_, ignored)) return;
    auto earlier = CsvTable::parse(host::read_text_file(file_, kMaxTableBytes));
    if (!earlier) {
      return fit.runtime().log().warning(file_.string() + " is no table of metrics and will be replaced");
    }
    table_ = std::move(*earlier);
    table_.drop_above("step", static_cast<double>(fit.step()));
  }
  void on_step_values(Fit& fit, StepValues& values) override {
    StepValues cells;  // the plain name is the mean over the epoch
    for (const auto& [name, value] : values) cells.emplace_back(name + "_step", value);
    add_row(fit, cells);
  }
  void on_validation_end(Fit& fit, const Metrics& means) override {
    validation_ = row(fit, {means.begin(), means.end()});
  }
  void on_train_epoch_end(Fit& fit, const Metrics& means) override {
    validation_.reset();  // the row of the epoch has its values
    add_row(fit, {means.begin(), means.end()});
    host::write_file(file_, table_.text());
  }

 private:
  fs::path file_;
  CsvTable table_;
  std::optional<StepValues> validation_;  // the row of one within an epoch, unless the epoch ends there

  static StepValues row(const Fit& fit, const StepValues& values) {
    StepValues cells{{"epoch", static_cast<double>(fit.epoch())}, {"step", static_cast<double>(fit.step())}};
    cells.insert(cells.end(), values.begin(), values.end());
    return cells;
  }
  void add_row(const Fit& fit, const StepValues& values) {
    if (const auto earlier = std::exchange(validation_, std::nullopt)) table_.add_row(*earlier);
    if (!values.empty()) table_.add_row(row(fit, values));
  }
};

}  // namespace

std::shared_ptr<Callback> metrics_file(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw UserError("cannot make the folder --log-dir=" + folder.string() + ": " + error.message());
  return std::make_shared<MetricsFile>(folder / "metrics.csv");
}

}  // namespace cohort
