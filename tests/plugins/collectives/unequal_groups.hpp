// Two ranks that connect groups of different sizes.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "memory_store.hpp"
#include "rank_comm.hpp"
#include "ranks.hpp"

namespace cohort::test {

/// Connects rank 0 in a group of this size and rank 1 in one of the other size of 2 and 3. Returns, for each rank, the
/// status and the text of its failure.
inline std::vector<std::string> failures_of_unequal_groups(const cohort_component& component, int size_of_rank_0) {
  MemoryStore store;
  std::vector<std::string> messages(2);
  run_as_threads(2, [&](int rank) {
    const int size = rank == 0 ? size_of_rank_0 : 5 - size_of_rank_0;
    const CallFailed failed =
        failure_of([&] { const RankComm comm(component, store.handle(), rank, size, std::chrono::seconds(60)); });
    messages[static_cast<std::size_t>(rank)] = std::to_string(failed.status()) + " " + failed.what();
  });
  return messages;
}

}  // namespace cohort::test
