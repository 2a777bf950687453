// A row holds what was measured together. The values of a step have the suffix _step, because the plain name is the
// mean over the epoch. A validation within an epoch has a row of its own, which is written before anything can be saved
// that a run resumes from, and the row of the epoch does not repeat its values, which are of another step; at the end
// of an epoch its values are in the row of the epoch.
#include "loggers/run_loggers.hpp"

#include <ATen/ops/tensor.h>

#include <array>
#include <bit>
#include <limits>
#include <sstream>
#include <utility>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/logger_plugin.hpp>
#include <cohort/runtime.hpp>

#include "callbacks/state_numbers.hpp"
#include "loggers/line_loggers.hpp"
#include "loggers/run_folder.hpp"
#include "loggers/tensorboard_logger.hpp"
#include "metrics/number_text.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;

const std::array<std::string, 3> kOwnLoggers{"csv", "json", "tensorboard"};

/// A logger of a plugin. Writes numbers, without text and histograms, which plugins do not take.
class PluginLogger final : public Logger {
 public:
  PluginLogger(Runtime& runtime, const Spec& spec, const std::filesystem::path& folder)
      : plugin_(runtime.plugins(), spec, runtime.log(), folder) {}

  void resume_after(uint64_t step) override { plugin_.resume_after(step); }
  void log_hyper_parameters(const HyperParameters& parameters) override {
    std::vector<std::pair<std::string, std::string>> texts;
    for (const auto& [name, value] : parameters) {
      const double* const number = std::get_if<double>(&value);
      texts.emplace_back(name, number ? number_text(*number, std::numeric_limits<double>::max_digits10)
                                      : std::get<std::string>(value));
    }
    plugin_.log_parameters(texts);
  }
  void log_metrics(const MetricsRow& row) override { plugin_.log_values(row.step, row.epoch, row.values); }
  void flush() override { plugin_.flush(); }
  void completed() override { plugin_.completed(); }

 private:
  host::LoggerPlugin plugin_;
};

std::shared_ptr<Logger> make_logger(Runtime& runtime, const Spec& kind, const fs::path& folder) {
  if (kind.name == kOwnLoggers[0]) return std::make_shared<CsvLogger>(folder);
  if (kind.name == kOwnLoggers[1]) return std::make_shared<JsonLogger>(folder);
  if (kind.name == kOwnLoggers[2]) return std::make_shared<TensorBoardLogger>(folder);
  return std::make_shared<PluginLogger>(runtime, kind, folder);
}

/// Throws UserError if a value is named like the step or the epoch of its row.
void refuse_reserved_names(const StepValues& values) {
  for (const auto& [name, value] : values) {
    if (name != "step" && name != "epoch") continue;
    throw UserError("a metric is named '" + name + "', which is where loggers write the " + name +
                    " of each row; give it another name");
  }
}

/// Returns whether these bits are the value of this name.
bool has(const Metrics& values, const std::string& name, double value) {
  const auto found = values.find(name);
  return found != values.end() && std::bit_cast<uint64_t>(found->second) == std::bit_cast<uint64_t>(value);
}

void save_metrics(CallbackState& state, const Metrics& metrics) {
  if (metrics.empty()) return;
  std::string names;
  std::vector<double> values;
  for (const auto& [name, value] : metrics) names += name + "\n", values.push_back(value);
  state.set("validated_names", names);
  state.set("validated_values", at::tensor(values, at::kDouble));
}

Metrics load_metrics(const CallbackState& state) {
  Metrics metrics;
  if (!state.has("validated_names")) return metrics;
  std::istringstream names(state.text("validated_names"));
  const at::Tensor values = state.tensor("validated_values").to(at::kDouble).flatten().contiguous();
  std::string name;
  for (int64_t i = 0; i < values.numel() && std::getline(names, name); ++i) {
    metrics[name] = values.const_data_ptr<double>()[i];
  }
  return metrics;
}

class RunLoggers final : public Callback {
 public:
  RunLoggers(RunLogging logging, RunRecord& record) : logging_(std::move(logging)), record_(record) {}

  std::string name() const override { return "loggers"; }
  void on_fit_start(Fit& fit) override {
    const bool has_rows = open(fit.runtime()) || (logging_.continues && fit.step() > 0);
    for (const auto& logger : loggers_) {
      if (has_rows && !counts_rows_) logger->resume_after(fit.step());
      if (has_rows && counts_rows_) logger->resume_at(fit.step(), rows_of(fit.step()));
      logger->log_hyper_parameters(logging_.parameters);
    }
    fit.runtime().log().info("Metrics are logged in " + host::on_one_line(folder_.native()));
  }
  void save_state(CallbackState& state) const override {
    state.set("folder", record_.log_folder.filename().native());
    state.set("step", static_cast<double>(step_));
    state.set("rows_of_step", static_cast<double>(rows_));
    save_metrics(state, in_earlier_row_);
  }
  void load_state(const CallbackState& state) override {
    counts_rows_ = state.has("step");  // formats 1 and 2 have no count
    if (counts_rows_) step_ = static_cast<uint64_t>(count_in(state, "step"));
    if (counts_rows_) rows_ = static_cast<uint64_t>(count_in(state, "rows_of_step"));
    in_earlier_row_ = load_metrics(state);
    earlier_folder_ = state.text("folder");
    if (earlier_folder_.empty() || is_run_folder_name(earlier_folder_)) return;
    throw UserError("the state of the loggers has the folder " + host::in_quotes(earlier_folder_) +
                    ", which is none that a run has made; resume from another checkpoint");
  }
  void on_step_values(Fit& fit, StepValues& values) override {
    StepValues named;
    for (const auto& [name, value] : values) named.emplace_back(name + "_step", value);
    log(fit, named);
  }
  void on_validation_end(Fit& fit, const Metrics& means) override {
    in_earlier_row_.clear();
    if (fit.is_epoch_over()) return;
    log(fit, {means.begin(), means.end()});
    in_earlier_row_ = means;
    has_validated_ = true;
  }
  void on_train_epoch_end(Fit& fit, const Metrics& means) override {
    StepValues values(means.begin(), means.end());
    std::erase_if(values, [this](const auto& value) { return has(in_earlier_row_, value.first, value.second); });
    in_earlier_row_.clear();
    log(fit, values);
  }
  // A resumed run keeps these rows, so they have to be as safe as its checkpoint.
  void on_save_point(Fit& fit, SavePoint point) override {
    const auto every = fit.runtime().options().checkpoint_every_n_steps;
    const bool is_due = every && fit.step() % static_cast<uint64_t>(*every) == 0;
    if (point == SavePoint::kStep && !is_due && !has_validated_) return;
    has_validated_ = false;
    for (const auto& logger : loggers_) logger->flush();
  }
  void on_fit_end(Fit& fit) override {
    for (const auto& logger : loggers_) {
      logger->flush();
      if (!fit.stop_reason().is_abrupt()) logger->completed();
    }
  }

 private:
  /// Returns whether the folder was there before, with rows of a part of this run that was ended, maybe before its
  /// first checkpoint.
  bool open(Runtime& runtime) {
    const fs::path earlier = logging_.dir / earlier_folder_;
    std::error_code ignored;
    const bool goes_on = logging_.continues && !earlier_folder_.empty();
    if (record_.log_folder.empty() && goes_on && fs::is_directory(earlier, ignored)) {
      record_.log_folder = earlier;
    }
    const bool is_new = record_.log_folder.empty();
    if (is_new) record_.log_folder = make_run_folder(logging_.dir);
    folder_ = record_.fits == 1 ? record_.log_folder : record_.log_folder / ("fit-" + std::to_string(record_.fits));
    std::error_code error;
    const bool is_made = fs::create_directories(folder_, error) || is_new;
    if (error) throw UserError("cannot make the folder '" + folder_.string() + "': " + error.message());
    for (const Spec& kind : logging_.kinds) loggers_.push_back(make_logger(runtime, kind, folder_));
    for (const MakeLogger& make : logging_.makers) loggers_.push_back(make(folder_));
    return !is_made;
  }

  uint64_t rows_of(uint64_t step) const { return step == step_ ? rows_ : 0; }

  void log(const Fit& fit, const StepValues& values) {
    if (values.empty()) return;
    refuse_reserved_names(values);
    rows_ = rows_of(fit.step()) + 1;
    step_ = fit.step();
    for (const auto& logger : loggers_) logger->log_metrics({fit.step(), fit.epoch(), values});
  }

  RunLogging logging_;
  RunRecord& record_;
  std::string earlier_folder_;    // of the run that is resumed
  Metrics in_earlier_row_;        // of the epoch's last validation, if steps have followed it
  uint64_t step_ = 0, rows_ = 0;  // of the last row, and how many rows that step has
  bool counts_rows_ = true;       // so did the run that is resumed
  fs::path folder_;
  std::vector<std::shared_ptr<Logger>> loggers_;
  bool has_validated_ = false;  // since the last save point, at which the best checkpoints may be written
};

}  // namespace

void check_loggers(host::PluginHost& plugins, std::span<const Spec> kinds) {
  for (const Spec& kind : kinds) host::check_logger(plugins, kind, kOwnLoggers);
}

std::shared_ptr<Callback> log_to(RunLogging logging, RunRecord& record) {
  return std::make_shared<RunLoggers>(std::move(logging), record);
}

}  // namespace cohort
