// What a training asks of its optimizers before it begins.
#pragma once

#include <cohort/optimizers.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// Throws UserError if there is none, or if strategy and precision cannot do what they need.
void check_optimizers(const Optimizers& optimizers, const Runtime& runtime);

}  // namespace cohort
