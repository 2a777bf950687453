#include "profile/phase_table.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>

#include <cohort/host/message.hpp>

namespace cohort {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseTime, name, count, seconds, is_callback)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PhaseTimes, steps, phases)

namespace {

constexpr double kShareOfARow = 0.001;  // of the loop; callbacks below it have none of their own
constexpr const char* kFewCallbacks = "callbacks that take little";

double seconds_of(const PhaseTimes& times) {
  double sum = 0;
  for (const PhaseTime& phase : times.phases) sum += phase.seconds;
  return sum;
}

/// Returns the phase's time on a rank, which may not know it.
double seconds_of(const PhaseTimes& times, const std::string& name) {
  const auto found = std::ranges::find(times.phases, name, &PhaseTime::name);
  return found == times.phases.end() ? 0 : found->seconds;
}

std::set<std::string> callbacks_with_a_row(const std::vector<PhaseTimes>& ranks) {
  std::set<std::string> names;
  for (const PhaseTimes& times : ranks) {
    const double least = kShareOfARow * seconds_of(times);
    for (const PhaseTime& phase : times.phases) {
      if (phase.is_callback && phase.seconds >= least) names.insert(phase.name);
    }
  }
  return names;
}

// In front of the rest, which is last.
void join_other_callbacks(PhaseTimes& times, const std::set<std::string>& with_a_row) {
  PhaseTime few{.name = kFewCallbacks};
  std::erase_if(times.phases, [&](const PhaseTime& phase) {
    if (!phase.is_callback || with_a_row.contains(phase.name)) return false;
    few.count += phase.count;
    few.seconds += phase.seconds;
    return true;
  });
  times.phases.insert(times.phases.empty() ? times.phases.end() : std::prev(times.phases.end()), std::move(few));
}

template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string line_of(const std::string& name, const std::string& count, double seconds, double loop, uint64_t steps) {
  const double per_step = steps == 0 ? 0 : 1e3 * seconds / static_cast<double>(steps);
  return formatted("%-28s %9s %10.3f %11.4f %7.1f", name.c_str(), count.c_str(), seconds, per_step,
                   loop > 0 ? 100 * seconds / loop : 0.0);
}

std::string range_of(const std::vector<double>& values) {
  if (values.size() < 2) return "";
  const auto [least, most] = std::ranges::minmax(values);
  return formatted("  %10.3f .. %.3f", least, most);
}

}  // namespace

std::string to_text(const PhaseTimes& times) {
  return to_message(times);
}

PhaseTimes parse_phase_times(const std::string& text) {
  return from_message<PhaseTimes>(text, "the times of its phases");
}

std::string phase_table(std::vector<PhaseTimes> ranks) {
  const auto with_a_row = callbacks_with_a_row(ranks);
  for (PhaseTimes& times : ranks) join_other_callbacks(times, with_a_row);
  const PhaseTimes& first = ranks.front();
  const double loop = seconds_of(first);
  const bool has_others = ranks.size() > 1;
  std::string table =
      "Profile of " + std::to_string(first.steps) + " steps" +
      (has_others ? ": rank 0, and the least and most of " + std::to_string(ranks.size()) + " ranks\n" : "\n");
  table += formatted("%-28s %9s %10s %11s %7s", "phase", "count", "seconds", "ms/step", "%");
  table += has_others ? "         seconds of ranks\n" : "\n";
  for (const PhaseTime& phase : first.phases) {
    std::vector<double> of_ranks;
    for (const PhaseTimes& times : ranks) of_ranks.push_back(seconds_of(times, phase.name));
    if (std::ranges::max(of_ranks) == 0) continue;
    table +=
        line_of(phase.name, std::to_string(phase.count), phase.seconds, loop, first.steps) + range_of(of_ranks) + "\n";
  }
  std::vector<double> loops;
  for (const PhaseTimes& times : ranks) loops.push_back(seconds_of(times));
  return table + line_of("loop", "", loop, loop, first.steps) + range_of(loops) + "\n";
}

}  // namespace cohort
