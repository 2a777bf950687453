// The extension cohort.parts/1 of a strategy's layers. [main] thread.
#pragma once

#include <cohort/api/ext/draft/parts.h>
#include <cohort/api/strategy.h>

namespace cohort::host {

/// Returns the table of the topmost layer that has one, or null. Throws UserError if it is no table.
const cohort_parts_1* parts_table(cohort_strategy* top);

}  // namespace cohort::host
