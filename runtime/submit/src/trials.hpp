// The trials of a grid: each combination of its flags' values.
#pragma once

#include <string>
#include <vector>

#include <cohort/submit.hpp>

namespace cohort {

/// Returns the name of a flag in the one of its spellings that all have: "batch-size" for "batch_size".
std::string flag_key(std::string name);

/// Returns the arguments of each trial as words of a shell; the values of the last flag change from one to the next.
/// Throws UserError if a flag has no name, is given twice or has no values, or there are too many trials.
std::vector<std::string> trials_of(const std::vector<GridFlag>& grid);

}  // namespace cohort
