#include "owners.hpp"

#include <algorithm>
#include <numeric>

namespace cohort::sharded {
namespace {

constexpr uint64_t kWindowBytes = 25ull << 20;  // where the host closes a bucket
constexpr uint64_t kRunsPerRank = 16;
constexpr double kEvenEnough = 1.05;  // of the mean

using Owners = std::vector<std::vector<int>>;
using Loads = std::vector<uint64_t>;  // bytes by rank

uint64_t total_of(const Loads& loads) {
  return std::accumulate(loads.begin(), loads.end(), uint64_t{0});
}
uint64_t largest_of(const Loads& loads) {
  return *std::max_element(loads.begin(), loads.end());
}

/// Parameters of a line, one after another.
struct Run {
  size_t line, begin, end;
  uint64_t nbytes;
};

/// Cuts the lines into runs that close when they have this many bytes.
std::vector<Run> runs_of(const std::vector<Line>& lines, uint64_t limit) {
  std::vector<Run> runs;
  for (size_t line = 0; line < lines.size(); ++line) {
    bool is_open = false;
    for (size_t i = 0; i < lines[line].size(); ++i) {
      if (!is_open) runs.push_back({line, i, i, 0});
      runs.back().end = i + 1;
      runs.back().nbytes += lines[line][i].nbytes;
      is_open = runs.back().nbytes < limit;
    }
  }
  return runs;
}

/// Returns the bytes that each rank gets so that `more` bytes make these loads as even as they can be.
std::vector<uint64_t> shares_of(const Loads& loads, uint64_t more) {
  Loads ascending = loads;
  std::sort(ascending.begin(), ascending.end());
  double level = 0, below = 0;
  for (size_t ranks = 1; ranks <= ascending.size(); ++ranks) {
    below += static_cast<double>(ascending[ranks - 1]);
    level = (below + static_cast<double>(more)) / static_cast<double>(ranks);
    if (ranks == ascending.size() || level <= static_cast<double>(ascending[ranks])) break;
  }
  std::vector<uint64_t> shares;
  for (const uint64_t load : loads) {
    shares.push_back(static_cast<uint64_t>(std::max(0.0, level - static_cast<double>(load))));
  }
  return shares;
}

/// Divides a window into one range for each rank, at the ends of parameters that are nearest to even shares.
void cut(const Line& line, const Run& window, Loads& loads, std::vector<int>& owners) {
  const std::vector<uint64_t> shares = shares_of(loads, window.nbytes);
  int rank = 0;
  uint64_t done = 0, until = shares[0];  // bytes
  for (size_t i = window.begin; i < window.end; ++i) {
    const uint64_t middle = done + line[i].nbytes / 2;
    while (middle >= until && rank + 1 < static_cast<int>(loads.size())) until += shares[static_cast<size_t>(++rank)];
    owners[i] = rank;
    loads[static_cast<size_t>(rank)] += line[i].nbytes;
    done += line[i].nbytes;
  }
}

Owners without_owners(const std::vector<Line>& lines) {
  Owners owners;
  for (const Line& line : lines) owners.emplace_back(line.size(), 0);
  return owners;
}

Owners in_ranges(const std::vector<Line>& lines, Loads& loads) {
  Owners owners = without_owners(lines);
  for (const Run& window : runs_of(lines, kWindowBytes)) cut(lines[window.line], window, loads, owners[window.line]);
  return owners;
}

Owners largest_first(const std::vector<Line>& lines, uint64_t total, Loads& loads) {
  Owners owners = without_owners(lines);
  std::vector<Run> runs = runs_of(lines, total / (kRunsPerRank * loads.size()));
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.nbytes > b.nbytes; });
  for (const Run& run : runs) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += run.nbytes;
    std::fill_n(owners[run.line].begin() + static_cast<std::ptrdiff_t>(run.begin), run.end - run.begin,
                static_cast<int>(least - loads.begin()));
  }
  return owners;
}

}  // namespace

std::vector<std::vector<int>> owners_of(const std::vector<Line>& lines, int ranks) {
  Loads loads(static_cast<size_t>(ranks)), others = loads;
  Owners ranges = in_ranges(lines, loads);
  const uint64_t total = total_of(loads);
  const double mean = static_cast<double>(total) / ranks;
  if (static_cast<double>(largest_of(loads)) <= kEvenEnough * mean) return ranges;
  Owners runs = largest_first(lines, total, others);
  return largest_of(others) < largest_of(loads) ? runs : ranges;
}

}  // namespace cohort::sharded
