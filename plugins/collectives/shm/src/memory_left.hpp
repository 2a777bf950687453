// Whether memory that is asked for can be had.
#pragma once

#include <cstdint>

namespace cohort::shm {

/// Bytes that this machine, or the cgroup that this process is in, can still give; the largest number where neither
/// tells.
uint64_t memory_left();

/// Throws RESOURCE_EXHAUSTED where there is not enough for `nbytes` on each of `ranks`. The kernel does not refuse
/// pages of a memfd, it kills processes.
void require_memory(uint64_t nbytes, int ranks);

}  // namespace cohort::shm
