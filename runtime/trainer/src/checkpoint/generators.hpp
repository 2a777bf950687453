// The random number generators of a rank in its checkpoint: dropout and random data go on where they were.
#pragma once

#include <span>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "state/state_tree.hpp"

namespace cohort {

constexpr const char* kGeneratorName = "cohort.generator.cpu";
constexpr const char* kGeneratorBeforeAheadName = "cohort.generator.cpu.before_ahead";

/// Returns the state of the default CPU generator.
at::Tensor generator_state();
/// Throws UserError, beginning with `file`, for bytes that are no such state.
void check_generator_state(const at::Tensor& state, const std::string& file);
void set_generator_state(const at::Tensor& state, const std::string& file);

/// Writes the states of the default generators of the CPU and of these devices.
void save_generators(const StateWriter& state, std::span<const c10::Device> devices);
/// Restores those of the devices, if the checkpoint has them: one that was saved on other devices has not. Throws
/// UserError, beginning with `file`, for bytes that are no such state.
void set_device_generator_states(std::span<const c10::Device> devices, const TensorIndex& tensors,
                                 const std::string& file);

}  // namespace cohort
