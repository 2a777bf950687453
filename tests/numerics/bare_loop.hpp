// The loop that a user of LibTorch writes, to compare the runtime's with.
#pragma once

#include <cohort/data.hpp>
#include <cohort/module.hpp>

#include "step_clock.hpp"

namespace numerics {

/// Trains on all batches once, in order, by LibTorch alone. The module is left on the device. Batches lie in pinned
/// memory before the first step. Throws UserError for a module that takes more than one optimizer.
void train_bare(cohort::Module& module, cohort::Dataset& batches, c10::Device device, StepClock& clock);

}  // namespace numerics
