// Random numbers of a device: those of the CPU at the same seed.
#pragma once

#include <ATen/core/Generator.h>

#include "device.hpp"

namespace fake_torch {

/// Returns the generator that a device's operators use where none is given.
const at::Generator& default_generator(c10::Device device);
at::Generator make_generator(c10::Device device);
/// Returns the CPU's generator that a device's draws from. Throws for a generator of another kind of device.
const at::Generator& drawn_from(const at::Generator& generator);

}  // namespace fake_torch
