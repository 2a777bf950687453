#include "metrics/rank_report.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <cohort/host/message.hpp>

namespace cohort {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StopReason, severity, exit_reason, text, signal, is_final, step, callback)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MetricTotal, name, sum, weight)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankReport, stop, totals, lacks_step, states, not_logged, unused)

namespace {

/// Returns the text as one line.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return text;
}

/// Ranks that take the other's weights over see its NaN in a later step, and all of them tell at the next vote. What
/// has brought a training to its end still has if its time is over as well.
bool counts_more(const StopReason& one, const StopReason& other) {
  if (one.severity != other.severity) return one.severity > other.severity;
  return one.is_final != other.is_final ? one.is_final : one.step < other.step;
}

/// Keeps of the names those that are among the others as well; the first are all kept.
void keep_common(std::vector<std::string>& names, const std::vector<std::string>& others, bool is_first) {
  if (is_first) {
    names = others;
    return;
  }
  const std::set<std::string> known(others.begin(), others.end());
  std::erase_if(names, [&](const std::string& name) { return !known.contains(name); });
}

}  // namespace

StopReason stopped_by(int signal, int rank) {
  return {.severity = StopReason::Severity::kInterrupt,
          .exit_reason = "signal",
          .text = "rank " + std::to_string(rank) + " received signal " + std::to_string(signal),
          .signal = signal,
          .rank = rank};
}

std::string to_text(const RankReport& report) {
  return to_message(report);
}

MergedReport merge_reports(std::span<const std::string> texts) {
  MergedReport merged;
  std::map<std::string, MetricTotal, std::less<>> sums;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    auto report = from_message<RankReport>(texts[rank], "a report of its metrics");
    StopReason& stop = report.stop;
    stop.exit_reason = one_line(std::move(stop.exit_reason));
    stop.text = one_line(std::move(stop.text));
    stop.rank = static_cast<int>(rank);
    if (counts_more(stop, merged.stop)) merged.stop = stop;
    merged.lacks_step |= report.lacks_step;
    merged.not_logged.push_back(std::move(report.not_logged));
    keep_common(merged.unused, report.unused, rank == 0);
    merged.states.push_back(std::move(report.states));
    for (const MetricTotal& total : report.totals) {
      sums[total.name].sum += total.sum;
      sums[total.name].weight += total.weight;
    }
  }
  for (const auto& [name, sum] : sums) {
    if (sum.weight > 0) merged.means[name] = sum.sum / sum.weight;
  }
  return merged;
}

}  // namespace cohort
