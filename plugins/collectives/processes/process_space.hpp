// Names what processes share, for collectives that compare it between ranks.
#pragma once

#include <unistd.h>

#include <array>
#include <fstream>
#include <string>

namespace cohort {

/// The kernel and the namespace of a process. A text is empty if the system does not tell it.
struct ProcessSpace {
  std::string boot;           ///< one kernel, between two boots; also where several nodes or containers are on it
  std::string pid_namespace;  ///< processes in different ones do not see each other in /proc
};

/// Returns those of this process.
inline ProcessSpace process_space() {
  ProcessSpace space;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> space.boot;
  std::array<char, 256> text{};
  if (::readlink("/proc/self/ns/pid", text.data(), text.size() - 1) > 0) space.pid_namespace = text.data();
  return space;
}

}  // namespace cohort
