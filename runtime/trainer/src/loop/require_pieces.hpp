// What a training needs whose batches are cut into pieces, by --pieces or by a strategy with parts.
#pragma once

#include <cohort/module.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// Throws UserError if the module, its device or another option needs whole batches, and they are cut.
void require_pieces(const Runtime& runtime, const Module& module);

}  // namespace cohort
