// What the loops of all ranks have to share, beside the options.
#pragma once

#include <memory>
#include <vector>

#include <cohort/callback.hpp>
#include <cohort/data.hpp>
#include <cohort/optimizers.hpp>
#include <cohort/runtime.hpp>

#include "settings/limits.hpp"

namespace cohort {

/// Throws UserError on all ranks if they have other limits, other numbers of validation loaders, or callbacks that
/// decide by other metrics: they would wait for each other in the middle of a step. Collective.
void agree_on_loop(Runtime& runtime, const LoopLimits& limits, const std::vector<Loader>& validation,
                   const Optimizers& optimizers, const std::vector<std::shared_ptr<Callback>>& callbacks);

}  // namespace cohort
