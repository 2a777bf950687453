#include "report/fit_report.hpp"

#include <cohort/host/error.hpp>
#include <cohort/host/files.hpp>

#include "report/results_text.hpp"

namespace cohort {
namespace {

constexpr uint64_t kMaxTableBytes = 1 << 30;

using Cells = std::vector<std::pair<std::string, double>>;

std::filesystem::path csv_file(const Options& options, bool wanted) {
  if (!wanted || options.log_dir.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(options.log_dir, error);
  if (error) throw UserError("cannot make the folder --log-dir=" + options.log_dir.string() + ": " + error.message());
  return options.log_dir / "metrics.csv";
}

bool wants_bar(const Options& options) {
  return options.log_format == host::LogFormat::kText && options.log_level <= host::LogLevel::kInfo;
}

}  // namespace

FitReport::FitReport(Runtime& runtime, const LoopLimits& limits)
    : log_(runtime.log()),
      active_(runtime.is_first() && limits.report),
      bar_(active_ && wants_bar(runtime.options())),
      csv_file_(csv_file(runtime.options(), active_ && limits.files)) {}

void FitReport::go_on_after(uint64_t steps) {
  std::error_code ignored;
  if (csv_file_.empty() || !std::filesystem::exists(csv_file_, ignored)) return;
  auto earlier = CsvTable::parse(host::read_text_file(csv_file_, kMaxTableBytes));
  if (!earlier) return log_.warning(csv_file_.string() + " is no table of metrics and will be replaced");
  csv_ = std::move(*earlier);
  csv_.drop_above("step", static_cast<double>(steps));
}

void FitReport::add_row(int64_t epoch, uint64_t step, std::span<const std::pair<std::string, double>> values) {
  if (csv_file_.empty() || values.empty()) return;
  Cells cells{{"epoch", static_cast<double>(epoch)}, {"step", static_cast<double>(step)}};
  cells.insert(cells.end(), values.begin(), values.end());
  csv_.add_row(cells);
}

void FitReport::step(int64_t epoch, uint64_t step, std::span<const std::pair<std::string, double>> values) {
  Cells cells;  // the plain name is the mean over the epoch
  for (const auto& [name, value] : values) cells.emplace_back(name + "_step", value);
  add_row(epoch, step, cells);
}

void FitReport::validation(int64_t epoch, uint64_t step, const Metrics& metrics) {
  add_row(epoch, step, Cells(metrics.begin(), metrics.end()));
}

void FitReport::epoch(int64_t epoch, uint64_t step, const Metrics& metrics, double seconds) {
  bar_.clear();
  if (active_) log_.info(epoch_line(epoch, metrics, seconds));
  add_row(epoch, step, Cells(metrics.begin(), metrics.end()));
  if (!csv_file_.empty()) host::write_file(csv_file_, csv_.text());
}

}  // namespace cohort
