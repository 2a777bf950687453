// Answers the host's questions about what the algorithms can do.
#pragma once

#include <cohort/sdk/supports.hpp>

namespace cohort::bagua {

sdk::Answer supports(const sdk::Query& query);

}  // namespace cohort::bagua
