// Splits of communicators for a collective that has no `split` of its own: the parts connect as groups do.
//
// Belongs to one Collective. Threads: [main].
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cohort/api/collective.h>
#include <cohort/host/job_secret.hpp>
#include <cohort/host/store.hpp>

namespace cohort::host {

class ConnectedGroups {
 public:
  /// Remembers how a communicator was connected; its store outlives this object.
  void add(const cohort_comm* comm, const cohort_connect_args& args);
  void remove(const cohort_comm* comm);
  /// Returns the job's number of each rank; empty: as in the group. [any-thread]
  const std::vector<int32_t>& job_ranks(const cohort_comm& comm) const;
  /// As cohort_collective_vt::split, over a communicator that was added or is a part of one. The ranks gather colors
  /// and keys, and each part connects with a store of its own.
  cohort_status split(cohort_collective* c, decltype(cohort_collective_vt::connect) connect, cohort_comm* comm,
                      int32_t color, int32_t key, cohort_comm* part);

 private:
  struct Store {
    Store(cohort_store* whole, std::string prefix) : prefixed(whole, std::move(prefix)), abi(prefixed) {}
    PrefixedStore prefixed;
    AbiStore abi;
  };
  struct Group {
    cohort_connect_args args;
    std::string name, master_addr;
    std::vector<int32_t> job_ranks;
    std::optional<Key> key;
    std::unique_ptr<Store> own_store;  // of a part
    uint64_t splits = 0;
  };
  /// A rank's wish, as it is sent.
  struct Member {
    int32_t color, key, rank, node_rank, job_rank;
  };

  mutable std::mutex mutex_;  // of groups_: lanes that fail look for job_ranks
  std::map<const cohort_comm*, Group> groups_;

  static Group part_of(Group& whole, const std::vector<Member>& members, int32_t own_rank);
};

}  // namespace cohort::host
