// What ranks train on, compared before the first step.
#pragma once

#include <span>
#include <string>

#include <cohort/data.hpp>

namespace cohort {

/// "64 samples in batches of 4", "a stream", "64 samples in batches of 4 with a sampler of its own".
std::string data_text(const Loader& loader);

/// The texts of all ranks, which are not all the same, as a warning. Throws UserError where only some have a stream or
/// a sampler of their own: such ranks ask each other at other times.
std::string warning_of_data(std::span<const std::string> texts);

}  // namespace cohort
