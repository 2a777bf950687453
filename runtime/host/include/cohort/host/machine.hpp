// Facts about this machine, as far as this process may use it.
#pragma once

#include <string>

namespace cohort::host {

/// Cores that this process may run on: its affinity, limited by the cgroup's CPU quota (rounded up). At least 1.
int usable_cores();

/// The host's name, or "unknown host".
std::string host_name();

}  // namespace cohort::host
