// Facts about this machine, as far as this process may use it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace cohort::host {

/// Cores that this process may run on: its affinity, limited by the cgroup's CPU quota (rounded up). At least 1.
int usable_cores();

/// The least CPU quota, in cores, of the control groups that `membership` (a /proc/PID/cgroup) names below `mount`,
/// version 1 or 2, and of those above them; rounded up, 0: none is limited.
int quota_cores(const std::filesystem::path& mount, const std::filesystem::path& membership);

/// Throws UserError if `count` workers (ranks, replicas, threads) are more than 64 for each usable core. The message
/// begins with `asked`, the flag or variable that asks for them, and calls them `noun`, a plural.
void check_workers(int64_t count, std::string_view asked, std::string_view noun);

/// The host's name, or "unknown host".
std::string host_name();

}  // namespace cohort::host
