#include "loop/gathered_report.hpp"

#include <algorithm>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

#include "checkpoint/all_or_none.hpp"
#include "metrics/packed_states.hpp"

namespace cohort {
namespace {

/// Returns the values of metric objects. The first rank that has met one and has a state of it computes it and tells
/// the others, which may not have met it in their batches.
Metrics values_of_metrics(Runtime& runtime, MetricBoard& board, const MergedReport& merged) {
  Metrics own;
  const auto compute = [&] {
    std::vector<StatesOfRank> ranks;
    for (size_t rank = 0; rank < merged.states.size(); ++rank) {
      ranks.push_back({unpacked_states(merged.states[rank]), merged.not_logged[rank]});
    }
    own = board.metrics().values(ranks, static_cast<size_t>(runtime.rank()));
  };
  if (std::ranges::all_of(merged.states, &std::string::empty)) {
    compute();  // throws if there is a metric that nobody has updated
    return {};
  }
  all_or_none(runtime, compute);
  RankReport report;
  for (const auto& [name, value] : own) report.totals.push_back({name, value, 1});
  return merge_reports(runtime.all_gather(to_text(report))).means;
}

bool has_value_of(const Metrics& values, const std::string& metric) {
  return std::ranges::any_of(values, [&](const auto& value) {
    return value.first == metric || value.first.starts_with(metric + "_");  // elements have their indices there
  });
}

/// Adds the values that a checkpoint has brought, if no step was taken since, which would have brought the metrics.
void add_restored_values(const Runtime& runtime, MetricBoard& board, Metrics& values) {
  const Metrics& restored = board.metrics().restored_values();
  values.insert(restored.begin(), restored.end());
  if (!restored.empty() || !runtime.is_first()) return;
  for (const std::string& name : board.metrics().not_logged()) {
    if (has_value_of(values, name)) continue;  // another rank has met it
    runtime.log().warning("metric " + host::in_quotes(name) +
                          " has no value in this epoch: the training was resumed and took no step that logs it");
  }
}

}  // namespace

MergedReport gather_report(Runtime& runtime, MetricBoard& board, RankReport own, bool is_complete) {
  own.totals = board.totals();
  own.states = packed_states(board.metrics().states());
  own.not_logged = board.metrics().not_logged();
  MergedReport merged = merge_reports(runtime.all_gather(to_text(own)));
  if (merged.stop.is_abrupt() && !is_complete) return merged;
  merged.values = values_of_metrics(runtime, board, merged);
  add_restored_values(runtime, board, merged.values);
  for (const auto& [name, value] : merged.values) {
    if (merged.means.emplace(name, value).second) continue;
    throw UserError("log(\"" + name +
                    "\") was given a value, and an element of a metric has this name; log one of them under another");
  }
  return merged;
}

}  // namespace cohort
