// Checks the output files of a program before the training, so that a long training does not fail at its end.
#pragma once

#include <cohort/host/environment.hpp>
#include <cohort/host/options.hpp>

namespace cohort {

/// Returns the options with absolute paths of outputs, checkpoints and plugins, because the program may change its
/// working folder later. Throws UserError if the working folder does not exist.
Options with_absolute_paths(Options options);

/// Throws UserError, which names the flag, if a file that this process will write cannot be written.
void check_outputs(const Options& options, const host::Topology& topology);

}  // namespace cohort
