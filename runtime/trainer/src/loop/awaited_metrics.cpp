#include "loop/awaited_metrics.hpp"

#include <algorithm>
#include <functional>

#include <cohort/host/in_quotes.hpp>
#include <cohort/host/option_table.hpp>

namespace cohort {
namespace {

constexpr size_t kMostTypingErrors = 2;
constexpr char kOfObject = '\t';  // no name of a metric has it

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Returns the names in a list of lines.
std::set<std::string> lines_of(std::string_view text) {
  std::set<std::string> lines;
  for (size_t end = 0; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    lines.emplace(text.substr(0, end));
  }
  return lines;
}

std::string without_digits(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isdigit(c) != 0; });
  return text;
}

/// Returns the known name of which `name` is probably a misspelling, or an empty text. Names that differ in digits
/// alone, as "acc1" and "acc5" do, are different names.
std::string meant_by(const std::string& name, const std::set<std::string>& known) {
  const std::vector<std::string> candidates(known.begin(), known.end());
  std::string nearest = host::nearest_name(name, candidates, kMostTypingErrors);
  return without_digits(nearest) == without_digits(name) ? std::string() : nearest;
}

}  // namespace

void AwaitedMetrics::check_before_training() const {
  const auto awaited = fit_.callbacks.awaited_metrics();
  if (fit_.limits.report || awaited.empty()) return;
  throw UserError(awaited[0].asked_by + ": --barebones logs nothing, so there is no metric " +
                  host::in_quotes(awaited[0].name) + "; leave one of the two out");
}

void AwaitedMetrics::note_validated(const Metrics& means) {
  for (const auto& [name, value] : means) validated_.insert(name);
}

// Gathers the names of all ranks, so that all of them come to the same result.
void AwaitedMetrics::check_after_step(MetricBoard& board, Validation& validation, Stopping& stopping) {
  if (std::exchange(are_checked_, true)) return;
  const bool knows_validation = !validation.is_on() || fit_.limits.sanity_batches != 0;
  if (!fit_.limits.report || !knows_validation) return;
  std::string names, all_names;
  for (const std::string& name : board.names()) names += name + "\n";
  for (const std::string& name : board.metrics().names()) names += name + kOfObject + "\n";
  for (const std::string& text : fit_.runtime.all_gather(names)) all_names += text;
  const std::set<std::string> trained = lines_of(all_names);
  for (const AwaitedMetric& metric : fit_.callbacks.awaited_metrics()) {
    check(metric, trained, [&] {
      if (!validation.is_left_out_by_flag()) return false;
      fit_.session.pause_for_evaluation();
      const NamedTensors of_training = board.metrics().take();
      const MergedReport merged = validation.attempt({.count = 1, .fraction = {}}, stopping);
      board.metrics().give_back(of_training);
      stopping.adopt(merged.stop);
      return merged.means.contains(metric.name);
    });
  }
}

// Calls `would_be_validated`, which is collective, to see whether a validation that is switched off logs the metric.
void AwaitedMetrics::check(const AwaitedMetric& metric, const std::set<std::string>& trained,
                           const std::function<bool()>& would_be_validated) const {
  // The names of an object's values begin with its own.
  const auto is_of_object = [&](const std::string& name) {
    return name.ends_with(kOfObject) && metric.name.starts_with(name.substr(0, name.size() - 1));
  };
  if (trained.contains(metric.name) || std::ranges::any_of(trained, is_of_object)) return;
  const std::string subject = metric.asked_by + ": the metric " + host::in_quotes(metric.name);
  const LoopLimits& limits = fit_.limits;
  if (validated_.contains(metric.name)) {
    const int64_t every = limits.validate_every_n_epochs;
    if (!limits.max_epochs || *limits.max_epochs >= every || limits.val_check_interval) return;
    throw MistakeOfAllRanks(
        subject + " is logged in validation, and --check-val-every-n-epoch=" + std::to_string(every) +
        " leaves none in " + std::to_string(*limits.max_epochs) + " epoch(s); choose another interval");
  }
  std::set<std::string> known = trained;
  std::erase_if(known, [](const std::string& name) { return name.ends_with(kOfObject); });
  known.insert(validated_.begin(), validated_.end());
  if (const std::string meant = meant_by(metric.name, known); !meant.empty()) {
    throw MistakeOfAllRanks(subject + " was not logged by the first training step, nor in validation; did you mean '" +
                            meant + "'? There are " + joined(known));
  }
  if (would_be_validated()) {
    throw MistakeOfAllRanks(subject +
                            " is logged in validation, which --limit-val-batches=0 switches off; leave one of the "
                            "two out");
  }
  if (!fit_.runtime.is_first()) return;
  fit_.runtime.log().warning(subject + " was not logged by the first training step, nor in validation" +
                             (known.empty() ? "" : " (logged: " + joined(known) + ")") +
                             "; the training ends after its first epoch unless it is logged by then");
}

}  // namespace cohort
