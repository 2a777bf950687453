// Refuses trainings that cannot cut their batches into pieces, as --pieces and strategies with parts do.
#pragma once

#include <cohort/module.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// Throws UserError if the module, its optimizers or another option needs whole batches, and they are cut.
void require_pieces(const Runtime& runtime, const Module& module, const Optimizers& optimizers);

}  // namespace cohort
