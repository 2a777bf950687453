// Says why a training cannot go on with ranks that have no batch left, before it begins.
#pragma once

#include <cohort/module.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// Throws UserError, with the way out, if --uneven=join does not go with the strategy, the module, the optimizers or
/// another flag: what a step does beside gradients has to be possible without a batch.
void require_join(const Runtime& runtime, const Module& module, const Optimizers& optimizers);

}  // namespace cohort
