// Traits of the whole process that a plugin must leave alone: see plugin_api/CONTRACT.md.
//
// Two snapshots are compared, from before and after foreign code has run. Threads: any, while no other thread changes
// one of the traits.
#pragma once

#include <csignal>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

namespace cohort::host {

class ProcessTraits {
 public:
  /// Takes a snapshot of this process.
  ProcessTraits();

  /// Returns what has another value in `later`, in words and in static memory ("the locale"); null if nothing has.
  const char* changed_in(const ProcessTraits& later) const;

 private:
  std::string locale_, folder_;
  std::map<std::string, std::string, std::less<>> environment_;
  mode_t umask_;
  unsigned floating_point_;  // rounding, and whether tiny numbers are flushed to zero
  std::vector<void (*)(int)> signal_handlers_;
  long threads_;
};

}  // namespace cohort::host
