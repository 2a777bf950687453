// The report of a rank at the end of a pass: its sums and states of metrics, and why it wants to stop.
//
// One text per rank, because a rank without evaluation batches does not know which metrics the others have.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <cohort/callback.hpp>
#include <cohort/metrics.hpp>

#include "metrics/metric_board.hpp"

namespace cohort {

/// Returns the reason of a rank that has received a signal.
StopReason stopped_by(int signal, int rank);

struct RankReport {
  StopReason stop{};
  std::vector<MetricTotal> totals{};
  bool lacks_step = false;                ///< the module has no step for the batches of the pass
  std::string states{};                   ///< of metric objects, packed
  std::vector<std::string> not_logged{};  ///< metrics whose states are a checkpoint's: this rank has met no object
  std::vector<std::string> unused{};      ///< parameters that no loss of the epoch has reached on this rank
};

std::string to_text(const RankReport& report);

struct MergedReport {
  StopReason stop;
  Metrics means;                                     ///< weighted over all ranks, and the values of metric objects
  bool lacks_step = false;                           ///< on a rank at least; one without batches does not know
  std::vector<std::string> states;                   ///< of metric objects, by rank
  std::vector<std::vector<std::string>> not_logged;  ///< by rank
  std::vector<std::string> unused;                   ///< parameters that no rank's loss has reached
  Metrics values;                                    ///< of metric objects alone; see gather_report
  Metrics on_bar;                                    ///< those of the means that this rank has logged with kBar
};

/// Merges the texts of all ranks, in rank order. Throws PeerFailed for a text that to_text did not write.
MergedReport merge_reports(std::span<const std::string> texts);

}  // namespace cohort
