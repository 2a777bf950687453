// Says why a training cannot capture a step, before it begins.
#pragma once

#include <cohort/module.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/runtime.hpp>

#include "settings/limits.hpp"

namespace cohort {

/// Throws UserError, with the way out, if --graph does not go with the device, the strategy, the collective, the
/// module, the optimizer or another flag.
void require_graph(const Runtime& runtime, const LoopLimits& limits, const Module& module,
                   const Optimizers& optimizers);

}  // namespace cohort
