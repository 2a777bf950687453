// What a run has done so far: filled by the loops, written as the summary.
//
// One per process, owned by the App, used on the main thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <cohort/metrics.hpp>

namespace cohort {

/// What the summary says of one rank.
struct RankFigures {
  std::string weights_sha256;  ///< after the last fit; empty unless a summary is asked for
  double peak_rss_mib = 0;
  double peak_device_mib =
      0;  ///< of tensors and buckets on its devices; 0 if there are none, or their backend does not count
  uint64_t samples = 0;     ///< trained on
  uint64_t bytes_sent = 0;  ///< by strategies while steps were taken
};

/// Ranks that lived in forks of this process, as their last loop left them.
struct ForkedRanks {
  std::vector<RankFigures> figures;  ///< by rank; empty: there were none
  std::string collective;
  std::vector<std::string> layers;
};

struct RunRecord {
  /// CLOCK_REALTIME at exec of the run's first process.
  std::chrono::nanoseconds started{0};

  uint64_t steps = 0;         ///< optimizer steps of this process
  uint64_t steps_before = 0;  ///< those of the runs that it goes on from
  int64_t epochs = 0;         ///< completed, or ended by a stream; with those of earlier runs
  int64_t fits = 0;           ///< trainings begun
  double seconds_to_first_step = 0;
  uint64_t samples = 0;         ///< trained on by this rank
  double training_seconds = 0;  ///< spent in steps, data included, evaluation not
  uint64_t bytes_sent = 0;      ///< by strategies while steps were taken, this rank
  std::vector<float> step_ms;   ///< the last kStepTimes steps, unordered
  Metrics metrics;              ///< the latest value of each
  Metrics strategy_metrics;     ///< set by the strategy in the last fit
  std::string weights_sha256;   ///< after the last fit; empty unless a summary is asked for
  std::string exit_reason = "completed";
  bool is_fitting = false;           ///< a training is running
  std::filesystem::path log_folder;  ///< of this run, for its loggers; empty before it has one
  ForkedRanks forked;                ///< where ranks are forked; everything above is rank 0's there

  static constexpr size_t kStepTimes = 65536;
  /// Notes how long the step took that has just been counted in `steps`.
  void add_step_time(std::chrono::nanoseconds time);
};

}  // namespace cohort
