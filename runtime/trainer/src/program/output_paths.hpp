// Where a program writes: made sure of before the training, which may be long.
#pragma once

#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>

namespace cohort {

/// Returns the options with the paths of outputs, checkpoints and plugins as they are now: a program may change its
/// working folder. Throws UserError where there is none any more.
Options with_absolute_paths(Options options);

/// Throws UserError where a file that this process will write cannot be written, with the flag that asks for it.
void check_outputs(const Options& options, const host::Topology& topology);

}  // namespace cohort
