// Whether a checkpoint is one of this program: of its model, optimizers and precision.
#pragma once

#include <cohort/step_driver.hpp>

#include "checkpoint/checkpoint.hpp"

namespace cohort {

/// Throws UserError, with the path and what differs, unless the session can resume from the checkpoint. Changes
/// nothing.
void check_fits(StepDriver& session, const LoadedCheckpoint& loaded);

}  // namespace cohort
