// Processes that ranks have started and that outlive them: the program in a script that was ended before it.
#pragma once

#include <sys/types.h>

#include <vector>

namespace cohort::launch {

/// While it lives this process becomes the parent of what its descendants leave behind. For programs that start nothing
/// but ranks.
class Orphans {
 public:
  Orphans();
  ~Orphans();
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  /// Those that still run; for a time when no rank does. Those that have ended are forgotten.
  std::vector<pid_t> running() const;
};

}  // namespace cohort::launch
