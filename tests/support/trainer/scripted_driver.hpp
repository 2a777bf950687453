// Steps of one real rank; the others do what a script says.
#pragma once

#include <memory>
#include <span>

#include <cohort/step_driver.hpp>

#include "fake_runtime.hpp"

namespace cohort::testing {

/// Everything that is given outlives the driver. Notes its calls in the script.
std::unique_ptr<StepDriver> make_scripted_driver(Runtime& runtime, Script& script,
                                                 std::span<torch::nn::Module* const> replicas, Optimizers optimizers);

}  // namespace cohort::testing
