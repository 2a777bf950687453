// comm/1 as collectives get it, for the communicators that they are made of.
#pragma once

#include <string_view>

namespace cohort::host {

/// Returns the table of comm/1 for a cohort_host whose services are a CommunicatorSet; null for any other id.
const void* find_comm_of_parts(std::string_view id);

}  // namespace cohort::host
