#include "threads.hpp"

#include <algorithm>

#include <ATen/Parallel.h>

#include <cohort/host/machine.hpp>

namespace cohort {

ThreadChoice choose_threads(const Options& options, const host::Topology& topology, const host::Variables& variables) {
  if (options.threads) return {*options.threads, "--threads"};
  const auto omp = variables.find("OMP_NUM_THREADS");
  if (omp != variables.end() && !omp->second.empty()) return {at::get_num_threads(), "OMP_NUM_THREADS"};
  const int ranks = topology.ranks_on_machine;
  const int cores = host::usable_cores();
  return {std::max(1, cores / ranks),
          std::to_string(cores) + " usable cores / " + std::to_string(ranks) + " ranks here"};
}

}  // namespace cohort
