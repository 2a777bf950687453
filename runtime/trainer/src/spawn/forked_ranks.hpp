// One loop of the Trainer in ranks that are forks of this process.
//
// [main] thread, and no other one may run. Nothing is handed over to the ranks: they have a copy of everything. What
// they bring back comes through anonymous files in memory.
#pragma once

#include <functional>
#include <vector>

#include <cohort/runtime.hpp>
#include <cohort/safetensors.hpp>

namespace cohort {

/// What a rank brings back.
using Parcel = SafetensorsFile;

struct Harvest {
  std::vector<Parcel> parcels;  ///< by rank
  int stop_signal = 0;          ///< SIGINT, SIGTERM, SIGHUP or SIGUSR1 that this process was sent meanwhile
};

/// Forks the ranks of the job, in each of which `runtime` is connected and `work` runs; waits for all of them. Throws
/// UserError or RanksNeeded where this process must not be forked, Interrupted where a signal kept a rank from coming
/// to its end, RankFailed, which needs no report, where a rank failed.
Harvest run_in_forked_ranks(Runtime& runtime, const std::function<Parcel()>& work);

}  // namespace cohort
