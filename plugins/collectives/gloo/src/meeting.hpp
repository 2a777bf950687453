// How ranks that know only a store tell each other where they can be reached. Borrows the store.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <cohort/api/collective.h>

namespace cohort::gloo {

/// Returns the addresses that the ranks listen on, in numbers and in order. The address is that of `interface`; if none
/// is named: loopback if all ranks are on one machine, else the one that the job's master address is reached from.
/// Collective. Throws DEADLINE_EXCEEDED with the ranks that are missing; one rank's mistake is thrown on all ranks.
std::vector<std::string> meet(const cohort_connect_args& args, const std::string& interface,
                              std::chrono::steady_clock::time_point deadline);

}  // namespace cohort::gloo
