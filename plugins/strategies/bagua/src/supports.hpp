// What the algorithms can do, for the host's questions.
#pragma once

#include <cohort/sdk/supports.hpp>

namespace cohort::bagua {

sdk::Answer supports(const sdk::Query& query);

}  // namespace cohort::bagua
