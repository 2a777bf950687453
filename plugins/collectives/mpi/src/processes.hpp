// Whether the processes of ranks on this machine are alive. Immutable, so any thread may ask.
#pragma once

#include <vector>

namespace cohort::mpi {

class Processes {
 public:
  /// Process numbers by rank; 0 for one that cannot be asked for. The own one counts as alive.
  explicit Processes(const std::vector<int>& pids);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Ranks whose process has ended.
  std::vector<int> gone() const;

 private:
  std::vector<int> descriptors_;  // pidfds by rank; -1: not watched
};

}  // namespace cohort::mpi
