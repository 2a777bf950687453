// The summary of a run: one JSON object that programs and tests rely on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cohort/metrics.hpp>
#include <cohort/run_record.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

struct Summary {
  std::string strategy, variant;
  std::vector<std::string> layers;
  std::string collective, accelerator;
  int world_size = 1, num_nodes = 1, replicas = 1, threads = 1;
  uint64_t steps = 0;
  int64_t epochs = 0;
  double wall_seconds = 0, seconds_to_first_step = 0;
  double step_ms_median = 0, step_ms_min = 0;
  double samples_per_second = 0;
  double bytes_sent_per_step = 0;
  std::vector<double> peak_rss_mib;
  std::vector<double> peak_device_mib;  ///< written if there is a device that counts
  Metrics metrics;
  Metrics strategy_metrics;  ///< set by the strategy; they stand beside the others and replace none
  std::vector<std::string> weights_sha256;
  std::string exit_reason;
};

/// Gathers the figures of all ranks. Collective; the result is complete on every rank. Where ranks are forked it is
/// made of what they have left.
Summary gather_summary(Runtime& runtime, const RunRecord& record);

/// Returns this rank's, without those of its devices.
RankFigures own_figures(const RunRecord& record);
std::string to_text(const RankFigures& figures);
/// Throws PeerFailed for a text that to_text did not write.
RankFigures parse_figures(const std::string& text);

/// Values that are not finite become null, as JSON has no others.
std::string to_json(const Summary& summary);

/// 0 without values.
double median(std::vector<float> values);

/// The process's largest resident size so far, in MiB (VmHWM).
double peak_rss_mib();

}  // namespace cohort
