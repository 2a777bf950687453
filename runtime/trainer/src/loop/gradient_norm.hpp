// The norm of an optimizer's gradients, whoever has them.
#pragma once

#include <cstddef>

#include <cohort/step_driver.hpp>

namespace cohort {

/// See Fit::gradient_norm.
double gradient_norm(StepDriver& session, size_t optimizer, double p);

}  // namespace cohort
