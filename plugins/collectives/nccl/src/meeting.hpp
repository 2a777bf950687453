// The first words of the ranks of a group: who has which NCCL, GPU and process, and where NCCL connects.
//
// Threads: [main].
#pragma once

#include <chrono>

#include <cohort/api/collective.h>

#include "link.hpp"

namespace cohort::nccl {

/// Returns the id by which the ranks connect, and notes in `around` who they are. Collective. Throws sdk::Error if the
/// ranks have different NCCLs, or share a GPU though theirs lets none do so.
ncclUniqueId meet(Surroundings& around, const cohort_connect_args& args,
                  std::chrono::steady_clock::time_point deadline);

}  // namespace cohort::nccl
