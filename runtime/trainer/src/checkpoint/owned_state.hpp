// State of the optimizers that one rank owns, in checkpoints: each owner writes its part into a file of its own, and
// whoever reads the checkpoint takes from all of these files what it keeps itself, on any number of ranks.
#pragma once

#include <string>

#include <cohort/safetensors.hpp>
#include <cohort/step_driver.hpp>

#include "state/tensor_index.hpp"

namespace cohort {

std::string owned_file(int rank);  // "optimizer-3.safetensors"

/// Removes and returns the state that this rank owns.
NamedTensors take_owned(StepDriver& session, NamedTensors& optimizer);

/// Erases state that another rank of this job keeps.
void drop_state_of_others(const StepDriver& session, TensorIndex& tensors);

}  // namespace cohort
