// A round over a store: every rank of a group that connects writes a value and reads those of all.
//
// For collectives whose ranks know nothing yet but the store of their cohort_connect_args. Threads: [main].
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/sdk/error.hpp>

namespace cohort::sdk {

/// To be called before a rank gives up because others did not come: rank 0, which usually serves the store, stays until
/// those who `came` have given up as well, at most 1.5 s, so that they too learn who is missing and not that it is
/// gone.
inline void give_up_together(cohort_store* store, const std::string& round, int rank, const std::vector<int>& came) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
  const auto key = [&](int other) { return round + "/gave_up/" + std::to_string(other); };
  cohort_status status = store->vt->set(store, key(rank).c_str(), "", 0);
  if (rank != 0) return;
  for (const int other : came) {
    const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
    if (status != COHORT_OK || left.count() <= 0) return;
    char nothing = 0;
    uint64_t nbytes = 0;
    status = store->vt->get(store, key(other).c_str(), left.count(), &nothing, 1, &nbytes);
  }
}

/// The values by rank, each at most 4096 bytes. `round` is a key that only this round has. Collective. Throws
/// DEADLINE_EXCEEDED with the ranks that wrote nothing before `deadline`.
inline std::vector<std::string> store_round(const cohort_connect_args& args, const std::string& round,
                                            const std::string& value, std::chrono::steady_clock::time_point deadline) {
  constexpr std::size_t kMaxValueBytes = 4096;
  const auto name = [&](int rank) { return std::to_string(args.job_ranks ? args.job_ranks[rank] : rank); };
  const auto check = [&](cohort_status status) {
    if (status == COHORT_OK) return;
    throw Error(status, "the job's store does not answer rank " + name(args.rank) +
                            ": rank 0 or the launcher, which serves it, is gone or stopped");
  };
  const auto key = [&](int rank) { return round + "/" + std::to_string(rank); };
  const auto time_left = [&]() -> std::chrono::nanoseconds {
    const auto left = deadline - std::chrono::steady_clock::now();
    return std::max<std::chrono::nanoseconds>(left, std::chrono::milliseconds(1));
  };
  check(args.store->vt->set(args.store, key(args.rank).c_str(), value.data(), value.size()));
  std::vector<std::string> values;
  std::string missing;
  std::vector<int> came;
  for (int rank = 0; rank < args.size; ++rank) {
    std::string& found = values.emplace_back(kMaxValueBytes, '\0');
    uint64_t nbytes = 0;
    const cohort_status status =
        args.store->vt->get(args.store, key(rank).c_str(), time_left().count(), found.data(), found.size(), &nbytes);
    if (status == COHORT_DEADLINE_EXCEEDED) {
      missing += (missing.empty() ? "rank " : ", rank ") + name(rank);
      continue;
    }
    check(status);
    came.push_back(rank);
    found.resize(nbytes);
  }
  if (missing.empty()) return values;
  give_up_together(args.store, round, args.rank, came);
  throw Error(COHORT_DEADLINE_EXCEEDED, missing + " did not come to connect within " +
                                            std::to_string(args.timeout_ns / 1'000'000) +
                                            " ms; look at their logs, or raise --timeout");
}

}  // namespace cohort::sdk
