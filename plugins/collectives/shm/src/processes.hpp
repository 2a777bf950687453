// Whether the processes of the other ranks are alive.
//
// Made once for each root communicator and shared by its splits; immutable, so any thread may ask.
#pragma once

#include <sched.h>

#include <cstdint>
#include <vector>

namespace cohort::shm {

class Processes {
 public:
  /// Process numbers by rank; 0 for a rank that is not known yet. Ranks of this process count as alive.
  explicit Processes(std::vector<int32_t> pids);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  bool is_gone(int rank) const;

 private:
  std::vector<int32_t> pids_;
  std::vector<int> descriptors_;  // pidfds; -1 where the kernel has none
};

/// Cores that this process may run on.
cpu_set_t usable_cores();

}  // namespace cohort::shm
