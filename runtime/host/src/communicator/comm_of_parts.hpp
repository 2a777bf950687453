// The services of collectives: comm/1 for the communicators that they are made of, kernels of the run's device, and
// proofs of a group's key.
#pragma once

#include <string_view>

namespace cohort::host {

/// Returns a table for a cohort_host whose services are a CommunicatorSet; null for an id that collectives do not get.
const void* find_service_of_collectives(std::string_view id);

}  // namespace cohort::host
