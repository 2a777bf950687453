// Finds what code leaves on the machine when it has ended, or was killed.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace cohort::test {

struct Leftovers {
  std::string why_not_looked_for;   // "": they were
  std::vector<std::string> things;  // "/dev/shm/name", "process 12 (sleep)", ...
};

/// Runs `body` in a process of its own, and looks for named shared memory, temporary files, open descriptors, mapped
/// memory and processes that it has left there. `patience` is how long processes may take to end. /dev/shm, System V
/// memory and TMPDIR are the process's own, so that nothing of other programs is found. Throws std::runtime_error with
/// what `body` throws. Call it before the process has threads of its own.
Leftovers leftovers_of(const std::function<void()>& body,
                       std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace cohort::test
