// Parameters that are in the optimizer and have no part in the loss: most often a layer that forward does not call.
#pragma once

#include <string>
#include <vector>

#include <cohort/host/log.hpp>

namespace cohort {

/// Names parameters that no loss of the first epoch has reached on any rank, and what to do; nothing for none.
void warn_of_unused(host::Log& log, const std::vector<std::string>& names);

}  // namespace cohort
