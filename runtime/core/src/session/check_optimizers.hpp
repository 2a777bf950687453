// Checks the optimizers of a training before it begins.
#pragma once

#include <cohort/optimizers.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// Throws UserError if the list is empty, or if the strategy or the precision cannot run one of the optimizers.
void check_optimizers(const Optimizers& optimizers, const Runtime& runtime);

}  // namespace cohort
