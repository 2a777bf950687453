// The end of a pass, on which all ranks come together.
#pragma once

#include <cohort/runtime.hpp>

#include "metrics/metric_board.hpp"
#include "metrics/rank_report.hpp"

namespace cohort {

/// Merges the reports of all ranks, to which it adds what the board of each has: means, and the values of metric
/// objects unless training stops abruptly before the pass is complete. The board stays as it is. Collective. Throws the
/// same UserError on all ranks if a metric cannot be computed.
MergedReport gather_report(Runtime& runtime, MetricBoard& board, RankReport own, bool is_complete);

}  // namespace cohort
