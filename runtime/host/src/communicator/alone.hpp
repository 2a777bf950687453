// The collective of one rank alone, so that a strategy has a world whatever the number of ranks.
#pragma once

#include <cohort/api/plugin.h>

namespace cohort::host {

/// Returns a collective whose groups have one rank: a message to itself is copied, and the host composes the rest.
const cohort_component& alone_collective();

}  // namespace cohort::host
