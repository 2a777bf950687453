// A module seen as the first callback of its training, so that the loop has one list to call.
#pragma once

#include <memory>

#include <cohort/callback.hpp>

namespace cohort {

/// Its name is "": a place of a hook without the name of a callback is the module's. The loop itself calls
/// on_train_epoch_end, whose values belong to those that callbacks are given, and the hooks of evaluation, which there
/// are without a Fit as well.
std::shared_ptr<Callback> moments_of(Module& module);

}  // namespace cohort
