// What is tried before a training, and looked at after its first step, because a mistake is cheaper then than after an
// epoch: the validation, and the names of the metrics that callbacks decide by.
#include <algorithm>

#include <cohort/host/in_quotes.hpp>
#include <cohort/host/option_table.hpp>
#include <cohort/module.hpp>

#include "checkpoint/generators.hpp"
#include "loop/evaluation.hpp"
#include "loop/fit_loop.hpp"

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

/// Returns the name that was probably meant; empty if it is none of these. "acc1" and "acc5" are two names.
std::string meant_by(const std::string& name, const std::set<std::string>& known) {
  const std::vector<std::string> candidates(known.begin(), known.end());
  std::string nearest = host::nearest_name(name, candidates, kMostTypingErrors);
  return without_digits(nearest) == without_digits(name) ? std::string() : nearest;
}

}  // namespace

// Nothing of it stays: no metric, no random number, no call of a callback but the vote on whether to stop.
Metrics FitLoop::try_validation(const BatchLimit& limit) {
  const auto begun = Clock::now();
  const Timed timed(profile_, Profile::kValidation);
  const detail::GeneratorKeeper keeper;
  const NamedTensors generators = device_generator_states(runtime_.devices());
  const EvaluationPass pass{.what = Replicas::kValidation,
                            .loaders = validation_,
                            .limit = limit,
                            .name = "validation data",
                            .is_optional = true,
                            .interrupted = [this] {
                              ask_callbacks();
                              return wish_.is_abrupt();
                            }};
  const auto merged = evaluate(runtime_, replicas_, pass, [this] { return wish_; });
  if (merged.lacks_step && validates_) leave_validation_out();
  adopt(merged.stop);
  set_device_generator_states(runtime_.devices(), TensorIndex(generators.begin(), generators.end()), "this training");
  tried_for_ += Clock::now() - begun;
  return merged.means;
}

void FitLoop::check_sanity() {
  const auto awaited = callbacks_.awaited_metrics();
  if (!limits_.report && !awaited.empty()) {
    throw UserError(awaited[0].asked_by + ": --barebones logs nothing, so there is no metric " +
                    host::in_quotes(awaited[0].name) + "; leave one of the two out");
  }
  if (limits_.sanity_batches == 0 || !validates_ || step() > 0 || over_) return;
  BatchLimit limit = limits_.validation;
  if (limits_.sanity_batches > 0) {
    limit = {.count = std::min(limit.count.value_or(limits_.sanity_batches), limits_.sanity_batches), .fraction = {}};
  }
  for (const auto& [name, value] : try_validation(limit)) tried_names_.insert(name);
}

// All ranks hear of the names of all, so that they come to the same end.
void FitLoop::check_awaited_metrics() {
  const bool knows_validation = !validates_ || limits_.sanity_batches != 0;
  if (!limits_.report || !knows_validation) return;
  std::string names, all_names;
  for (const std::string& name : board_.names()) names += name + "\n";
  for (const std::string& name : board_.metrics().names()) names += name + kOfObject + "\n";
  for (const std::string& text : runtime_.all_gather(names)) all_names += text;
  const std::set<std::string> trained = lines_of(all_names);
  for (const AwaitedMetric& metric : callbacks_.awaited_metrics()) check_awaited(metric, trained);
}

bool FitLoop::would_validate(const std::string& name) {
  session_.pause_for_evaluation();
  const NamedTensors of_training = board_.metrics().take();
  const bool logs = try_validation({.count = 1, .fraction = {}}).contains(name);
  board_.metrics().give_back(of_training);
  return logs;
}

void FitLoop::check_awaited(const AwaitedMetric& metric, const std::set<std::string>& trained) {
  // The names of an object's values begin with its own.
  const auto is_of_object = [&](const std::string& name) {
    return name.ends_with(kOfObject) && metric.name.starts_with(name.substr(0, name.size() - 1));
  };
  if (trained.contains(metric.name) || std::ranges::any_of(trained, is_of_object)) return;
  const std::string subject = metric.asked_by + ": the metric " + host::in_quotes(metric.name);
  const int64_t every = limits_.validate_every_n_epochs;
  if (tried_names_.contains(metric.name)) {
    if (!limits_.max_epochs || *limits_.max_epochs >= every || limits_.val_check_interval) return;
    throw MistakeOfAllRanks(
        subject + " is logged in validation, and --check-val-every-n-epoch=" + std::to_string(every) +
        " leaves none in " + std::to_string(*limits_.max_epochs) + " epoch(s); choose another interval");
  }
  std::set<std::string> known = trained;
  std::erase_if(known, [](const std::string& name) { return name.ends_with(kOfObject); });
  known.insert(tried_names_.begin(), tried_names_.end());
  if (const std::string meant = meant_by(metric.name, known); !meant.empty()) {
    throw MistakeOfAllRanks(subject + " was not logged by the first training step, nor in validation; did you mean '" +
                            meant + "'? There are " + joined(known));
  }
  const bool is_switched_off = limits_.validate && !validation_.empty() && limits_.validation.count == 0;
  if (is_switched_off && would_validate(metric.name)) {
    throw MistakeOfAllRanks(subject +
                            " is logged in validation, which --limit-val-batches=0 switches off; leave one of the "
                            "two out");
  }
  if (!runtime_.is_first()) return;
  runtime_.log().warning(subject + " was not logged by the first training step, nor in validation" +
                         (known.empty() ? "" : " (logged: " + joined(known) + ")") +
                         "; the training ends after its first epoch unless it is logged by then");
}

}  // namespace cohort
