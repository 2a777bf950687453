// Reads the state of a process of this machine from /proc. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace cohort::host {

struct ProcessStat {
  char state = '?';          ///< as in /proc/PID/stat: R, S, D, T (stopped), t (traced), Z (ended), ...
  uint64_t start_ticks = 0;  ///< after boot, in clock ticks: with the pid it names a process once and for all
};

/// Nothing where there is no such process, or it cannot be seen.
std::optional<ProcessStat> read_process_stat(pid_t pid);

/// Equal for processes that see the same process numbers: boot and pid namespace.
std::string process_space();

/// Names a process among those of all machines.
struct ProcessId {
  pid_t pid = 0;  ///< 0: not known
  uint64_t started = 0;
  std::string space;
};

/// Returns the name of this process.
ProcessId own_process();

enum class ProcessState {
  kUnknown,  ///< it runs on another machine, or in another container
  kRunning,
  kStopped,
  kGone,
};

/// Returns the state of a process, seen from one of `own_space`.
ProcessState state_of(const ProcessId& process, const std::string& own_space);

}  // namespace cohort::host
