// CPU memory on a collective that moves device memory only: operations on it go to a twin group, made beside each
// communicator by a collective of CPU memory.
//
// What the collective lacks for device memory, or leaves to the host, is staged through pinned memory and the twin; so
// are sums that must be taken in rank order. Belongs to one Collective. Threads: any; twins are set on [main].
#pragma once

#include <map>
#include <mutex>

#include <cohort/api/collective.h>

namespace cohort::host {

class CpuTwins {
 public:
  /// Returns the table of the twins' operations, for CPU memory alone.
  static cohort_collective_vt host_table(cohort_collective_vt table);
  /// Returns a table that serves both kinds of memory. `own` is the collective's; `keep_sums`: also its sums.
  static cohort_collective_vt table(cohort_collective_vt table, const cohort_collective_vt& own, bool keep_sums);

  void set(const cohort_comm* comm, cohort_comm* twin);
  void remove(const cohort_comm* comm);
  cohort_comm* of(const cohort_comm* comm) const;

 private:
  mutable std::mutex mutex_;
  std::map<const cohort_comm*, cohort_comm*> twins_;
};

}  // namespace cohort::host
