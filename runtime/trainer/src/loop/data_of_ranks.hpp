// Compares the training data of the ranks before the first step.
#pragma once

#include <span>
#include <string>

#include <cohort/data.hpp>
#include <cohort/host/options.hpp>

namespace cohort {

/// Returns a description of the data: "64 samples in batches of 4", "a stream", "64 samples in batches of 4 with a
/// sampler of its own".
std::string data_text(const Loader& loader);

/// Returns a warning about the descriptions of all ranks, by rank, which are not all equal. Throws UserError if only
/// some ranks have a stream or a sampler of their own: they vote on the end of an epoch at other steps than the others
/// do.
std::string warning_of_data(std::span<const std::string> texts, UnevenData uneven);

}  // namespace cohort
