// A copy of the user's module, for a replica or for pieces of a batch.
#pragma once

#include <memory>

#include <c10/core/Device.h>
#include <cohort/module.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// Returns a copy on the device, in the type of --precision. On the CPU its parameters share the module's memory, its
/// buffers do not. Throws UserError if the module cannot be cloned.
std::shared_ptr<Module> clone(const Runtime& runtime, const Module& module, c10::Device device);

}  // namespace cohort
