#include "threads.hpp"

#include <algorithm>
#include <charconv>

#include <ATen/Parallel.h>

#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>
#include <cohort/host/machine.hpp>

namespace cohort {
namespace {

// Throws UserError if the text is not a number of threads or a list of them, one for each level of nesting. OpenMP
// itself would ignore a value that it does not understand.
void check_openmp(const std::string& text) {
  int64_t count = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_number = failure == std::errc() && (end == text.data() + text.size() || *end == ',');
  if (!is_number || count < 1) {
    throw UserError("environment: OMP_NUM_THREADS=" + host::in_quotes(text) +
                    " is no number of threads; correct it, or unset it");
  }
  host::check_workers(count, "OMP_NUM_THREADS", "threads for each rank");
}

}  // namespace

ThreadChoice choose_threads(const Options& options, const host::Topology& topology, const host::Variables& variables) {
  if (options.threads) return {*options.threads, "--threads"};
  const auto omp = variables.find("OMP_NUM_THREADS");
  if (omp != variables.end() && !omp->second.empty()) {
    check_openmp(omp->second);
    return {at::get_num_threads(), "OMP_NUM_THREADS"};
  }
  const int ranks = topology.ranks_on_machine;
  const int cores = host::usable_cores();
  return {std::max(1, cores / ranks),
          std::to_string(cores) + " usable cores / " + std::to_string(ranks) + " ranks here"};
}

}  // namespace cohort
