// Where a process runs, to tell whether two of them can share memory.
#pragma once

#include <string>

namespace cohort::shm {

struct ProcessPlace {
  std::string host;           // for messages
  std::string boot;           // one kernel, between two boots
  std::string pid_namespace;  // processes in different ones do not see each other in /proc
};

ProcessPlace own_place();
std::string to_text(const ProcessPlace& place);
/// Throws where the text was not made by to_text.
ProcessPlace place_from(const std::string& text);

/// Why a rank at `other` cannot share memory with rank 0 at `first`; empty where it can.
std::string why_apart(const ProcessPlace& first, const ProcessPlace& other, int other_rank);

}  // namespace cohort::shm
