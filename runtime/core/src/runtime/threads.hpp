// How many intra-op threads a rank gets.
#pragma once

#include <string>

#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>

namespace cohort {

struct ThreadChoice {
  int threads;
  std::string reason;  ///< for the log
};

/// --threads, else OMP_NUM_THREADS, else max(1, usable cores / ranks on this machine).
ThreadChoice choose_threads(const Options& options, const host::Topology& topology, const host::Variables& variables);

}  // namespace cohort
