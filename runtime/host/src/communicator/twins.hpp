// Memory that a collective of device memory cannot move: operations on it go to twin groups of the same ranks, made
// beside each communicator. One is of CPU memory, by another collective; if a rank has several devices, which hold
// parts of a model, each of the others has one.
//
// What the collective lacks for device memory, or leaves to the host, is staged through pinned memory and the twin; so
// are sums that must be taken in rank order. Belongs to one Collective. Threads: any; twins are set on [main].
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include <cohort/api/collective.h>

namespace cohort::host {

class Twins {
 public:
  /// Returns the table of the twins' operations, for CPU memory alone.
  static cohort_collective_vt host_table(cohort_collective_vt table);
  /// Returns a table that serves both kinds of memory. `own` is the collective's; `keep_sums`: also its sums.
  static cohort_collective_vt table(cohort_collective_vt table, const cohort_collective_vt& own, bool keep_sums);

  void set(const cohort_comm* comm, cohort_comm* twin);
  void set_of_device(const cohort_comm* comm, int32_t device, cohort_comm* twin);
  void remove(const cohort_comm* comm);
  cohort_comm* of(const cohort_comm* comm) const;
  /// Returns the twin of a device; null: the communicator itself moves its memory.
  cohort_comm* of_device(const cohort_comm* comm, int32_t device) const;

 private:
  struct OfComm {
    cohort_comm* cpu = nullptr;
    std::map<int32_t, cohort_comm*> devices;
  };
  mutable std::mutex mutex_;
  std::map<const cohort_comm*, OfComm> twins_;
};

}  // namespace cohort::host
