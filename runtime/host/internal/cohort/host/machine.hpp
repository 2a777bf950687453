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

/// Returns the cores near a PCI device ("0000:3b:00.0"; either case), as Linux lists them in `sys`: "0-31,64-95". Empty
/// if it knows no such device.
std::string cores_near(std::string_view pci_address, const std::filesystem::path& sys = "/sys");

/// Keeps the calling thread, and the threads that it starts from now on, on those of the listed cores that it may use
/// anyway. Returns how many these are, or 0 if nothing changes: the list is empty or malformed, or has none or all of
/// the thread's cores.
int stay_on_cores(std::string_view list);

/// The host's name, or "unknown host".
std::string host_name();

}  // namespace cohort::host
