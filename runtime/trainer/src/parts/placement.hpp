// Puts the weights of a model on the devices of a process.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <c10/core/Device.h>
#include <torch/nn/module.h>

#include "parts/part_devices.hpp"
#include "parts/units.hpp"

namespace cohort {

/// Moves the module to the devices: about as many bytes of its units to each, in the order of registration.
void spread(torch::nn::Module& module, std::span<const c10::Device> devices);
/// Moves each unit to the device of its part, and written buffers of modules without parameters, too. `parts`: of each
/// unit, in the order of registration.
void move_units(torch::nn::Module& module, const std::vector<size_t>& parts, const PartDevices& devices,
                const std::vector<WrittenBuffer>& written = {});

}  // namespace cohort
