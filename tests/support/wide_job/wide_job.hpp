// Measures the control plane of a job with many ranks: time, and the traffic of the store that rank 0 serves.
//
// Ranks are threads of the toy host. The store is served over TCP, as on several machines, and sealed with the job's
// key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace cohort::test {

/// Counts of the requests and bytes between the store of rank 0 and the other ranks.
struct StoreTraffic {
  uint64_t requests = 0;  ///< each has an answer
  uint64_t bytes = 0;     ///< of requests and answers, with what seals them; without TCP's own
};

struct Phase {
  double seconds = 0;
  StoreTraffic traffic;
};

struct WideJob {
  Phase start;                         ///< until all ranks have met and have their communicators
  Phase agreement;                     ///< a text that is the same on all ranks
  Phase votes;                         ///< a step, with the votes of all ranks; the second one
  Phase failure;                       ///< from the exception of rank 1 until all ranks have ended
  std::vector<std::string> sentences;  ///< what each rank says of the failure
};

/// Runs a job of ddp in which rank 1 fails, over the collective `crowd` of the tests, with the plugins of these
/// folders.
WideJob run_wide_job(int ranks, const std::vector<std::filesystem::path>& plugins);

}  // namespace cohort::test
