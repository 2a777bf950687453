// What ranks tell each other at the end of a pass: their sums of metrics, and why they want to stop.
//
// One text per rank, because a rank without evaluation batches does not know which metrics the others have.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cohort/metrics.hpp>

#include "metrics/metric_board.hpp"

namespace cohort {

/// Why training ends early. Of several ranks' reasons the greatest counts.
struct StopReason {
  enum class Kind : int { kNone = 0, kMaxTime = 1, kSignal = 2, kNotFinite = 3 };
  Kind kind = Kind::kNone;
  int64_t detail = 0;  ///< the signal's number, or the step whose loss is not finite
  int rank = 0;        ///< who says so
  explicit operator bool() const { return kind != Kind::kNone; }
};

struct RankReport {
  StopReason stop;
  std::vector<MetricTotal> totals;
};

std::string to_text(const RankReport& report);

struct MergedReport {
  StopReason stop;
  Metrics means;  ///< weighted over all ranks
};

/// Merges the texts of all ranks, in rank order. Throws PeerFailed for a text that to_text did not write.
MergedReport merge_reports(std::span<const std::string> texts);

}  // namespace cohort
