#include "loop/gathered_report.hpp"

#include <algorithm>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "checkpoint/all_or_none.hpp"
#include "metrics/packed_states.hpp"

namespace cohort {
namespace {

/// Returns the values of metric objects. The first rank that has a state of one computes it, because others may not
/// even have met it in their batches, and tells the others.
Metrics values_of_metrics(Runtime& runtime, MetricBoard& board, const std::vector<std::string>& texts) {
  Metrics own;
  const auto compute = [&] {
    std::vector<NamedTensors> states;
    for (const std::string& text : texts) states.push_back(unpacked_states(text));
    own = board.metrics().values(states, static_cast<size_t>(runtime.rank()));
  };
  if (std::ranges::all_of(texts, &std::string::empty)) {
    compute();  // throws if there is a metric that nobody has updated
    return {};
  }
  all_or_none(runtime, compute);
  RankReport report;
  for (const auto& [name, value] : own) report.totals.push_back({name, value, 1});
  return merge_reports(runtime.all_gather(to_text(report))).means;
}

/// Adds the values that a checkpoint has brought, if no step was taken since, which would have brought the metrics.
void add_restored_values(const Runtime& runtime, MetricBoard& board, Metrics& values) {
  const Metrics& restored = board.metrics().restored_values();
  values.insert(restored.begin(), restored.end());
  if (!restored.empty() || !runtime.is_first()) return;
  for (const std::string& name : board.metrics().not_logged()) {
    runtime.log().warning("metric " + host::in_quotes(name) +
                          " has no value in this epoch: the training was resumed and took no step that logs it");
  }
}

}  // namespace

MergedReport gather_report(Runtime& runtime, MetricBoard& board, RankReport own, bool is_complete) {
  own.totals = board.totals();
  own.states = packed_states(board.metrics().states());
  MergedReport merged = merge_reports(runtime.all_gather(to_text(own)));
  if (merged.stop.is_abrupt() && !is_complete) return merged;
  merged.values = values_of_metrics(runtime, board, merged.states);
  add_restored_values(runtime, board, merged.values);
  for (const auto& [name, value] : merged.values) {
    if (merged.means.emplace(name, value).second) continue;
    throw UserError("log(\"" + name +
                    "\") was given a value, and an element of a metric has this name; log one of them under another");
  }
  return merged;
}

}  // namespace cohort
