// The loss in what a training step returns.
#pragma once

#include <cohort/value.hpp>

namespace cohort {

/// The tensor itself, or "loss" of a map. Throws UserError, with the way to mend it, unless it is one number that
/// requires grad.
const at::Tensor& loss_of(const Output& output);

}  // namespace cohort
