// The bottom layer of every strategy.
#pragma once

#include <cohort/api/strategy.h>

namespace cohort::host {

/// Returns the slots of the bottom layer. Their data is the RankState; null is enough for plan.
const cohort_strategy_vt& base_strategy();

}  // namespace cohort::host
