// Runs a body once for each rank, as threads of this process or as processes of their own.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace cohort::test {

/// Runs `body(rank)` on `size` threads, joins them and rethrows the first exception, by rank.
void run_as_threads(int size, const std::function<void(int)>& body);

/// What became of a rank that was a process.
struct RankEnd {
  bool is_ok;         // left with exit code 0
  int signal;         // that ended it, or 0
  std::string error;  // what its body threw
};

/// Forks `size` processes that run `body(rank)`, and waits for all. Call it before the process has threads of its own.
std::vector<RankEnd> run_as_processes(int size, const std::function<void(int)>& body);

}  // namespace cohort::test
