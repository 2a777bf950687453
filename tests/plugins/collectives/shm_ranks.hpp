// What the tests of shm share: ranks that are connected with the built plugin.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "fork_store.hpp"
#include "memory_store.hpp"
#include "plugin_file.hpp"
#include "rank_comm.hpp"
#include "ranks.hpp"

namespace cohort::test {

inline const cohort_component& shm() {
  return component_of(open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_COLLECTIVE);
}

/// Ranks that are threads.
inline void on_ranks(int size, const std::function<void(RankComm&)>& body,
                     std::chrono::nanoseconds timeout = std::chrono::seconds(60), const OptionValues& options = {}) {
  MemoryStore store;
  run_as_threads(size, [&](int rank) {
    RankComm comm(shm(), store.handle(), rank, size, timeout, options);
    body(comm);
  });
}

/// Ranks that are processes.
inline std::vector<RankEnd> on_processes(int size, const std::function<void(RankComm&)>& body,
                                         std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
  ForkStore store;
  return run_as_processes(size, [&](int rank) {
    RankComm comm(shm(), store.handle(), rank, size, timeout);
    body(comm);
  });
}

/// Messages of all ranks where they call different things; every rank must fail with this status.
inline std::vector<std::string> disagree(int size, cohort_status status, const std::function<void(RankComm&)>& call) {
  std::vector<std::string> messages(static_cast<std::size_t>(size));
  on_ranks(size, [&](RankComm& comm) {
    const CallFailed failed = failure_of([&] { call(comm); });
    messages[static_cast<std::size_t>(comm.rank())] = failed.what();
    if (failed.status() != status)
      throw std::runtime_error("status " + std::to_string(failed.status()) + ": " + failed.what());
  });
  return messages;
}

}  // namespace cohort::test
