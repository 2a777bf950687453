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

/// The values by rank, each at most 4096 bytes. `round` is a key that only this round has. Collective. Throws
/// DEADLINE_EXCEEDED with the ranks that wrote nothing before `deadline`.
inline std::vector<std::string> store_round(const cohort_connect_args& args, const std::string& round,
                                            const std::string& value, std::chrono::steady_clock::time_point deadline) {
  constexpr std::size_t kMaxValueBytes = 4096;
  const auto check = [&](cohort_status status) {
    if (status == COHORT_OK) return;
    throw Error(status, "the job's store does not answer rank " + std::to_string(args.rank) +
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
  for (int rank = 0; rank < args.size; ++rank) {
    std::string& found = values.emplace_back(kMaxValueBytes, '\0');
    uint64_t nbytes = 0;
    const cohort_status status =
        args.store->vt->get(args.store, key(rank).c_str(), time_left().count(), found.data(), found.size(), &nbytes);
    if (status == COHORT_DEADLINE_EXCEEDED) {
      missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(rank);
      continue;
    }
    check(status);
    found.resize(nbytes);
  }
  if (missing.empty()) return values;
  throw Error(COHORT_DEADLINE_EXCEEDED, missing + " did not come to connect within " +
                                            std::to_string(args.timeout_ns / 1'000'000) +
                                            " ms; look at their logs, or raise --timeout");
}

}  // namespace cohort::sdk
