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

namespace cohort::host {

class ProcessTraits {
 public:
  /// Takes a snapshot of this process.
  ProcessTraits();

  /// Returns the first difference from `before`, as "changes the locale" or "closes files (descriptor 2)"; or "".
  /// In a process with several threads only the standard streams count among files, and threads not at all: the other
  /// threads open and close files, and start threads.
  std::string harm_since(const ProcessTraits& before) const;

 private:
  std::string locale_, folder_;
  std::map<std::string, std::string, std::less<>> environment_;
  std::string umask_;
  unsigned floating_point_;  // rounding, and whether tiny numbers are flushed to zero
  std::vector<void (*)(int)> signal_handlers_;
  bool has_one_thread_;
  std::vector<int> descriptors_;  // those that are open

  const char* changed_since(const ProcessTraits& before) const;
};

}  // namespace cohort::host
