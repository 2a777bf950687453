#include <cohort/host/machine.hpp>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <fstream>
#include <thread>

#include <cohort/host/error.hpp>

namespace cohort::host {
namespace {

// Cores that one group may use: version 2 has "150000 100000" or "max 100000" in one file, microseconds of CPU time per
// period; version 1 has two files, with -1 for no limit. 0: no limit.
int group_cores(const std::filesystem::path& group) {
  double quota = 0, period = 0;
  if (!(std::ifstream(group / "cpu.max") >> quota >> period)) {
    quota = 0;
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? static_cast<int>(std::ceil(quota / period)) : 0;
}

bool has_cpu(const std::string& controllers) {
  return controllers.empty() || ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

int affinity_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::thread::hardware_concurrency());
}

/// Calls `add` for each core of a list such as "0-3,8"; returns false if the list is malformed.
template <class Add>
bool for_each_core(std::string_view list, const Add& add) {
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int first = 0;
    auto parsed = std::from_chars(at, end, first);
    int last = first;
    if (parsed.ec == std::errc() && parsed.ptr < end && *parsed.ptr == '-') {
      parsed = std::from_chars(parsed.ptr + 1, end, last);
    }
    const bool is_at_comma = parsed.ptr < end && *parsed.ptr == ',';
    if (parsed.ec != std::errc() || first < 0 || (parsed.ptr < end && !is_at_comma)) return false;
    for (int core = first; core <= last && core < CPU_SETSIZE; ++core) add(core);
    at = parsed.ptr + (is_at_comma ? 1 : 0);
  }
  return true;
}

}  // namespace

std::string cores_near(std::string_view pci_address, const std::filesystem::path& sys) {
  std::string name(pci_address);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.empty() || name.find('/') != std::string::npos) return "";
  std::string list;
  std::ifstream(sys / "bus/pci/devices" / name / "local_cpulist") >> list;
  return list;
}

int stay_on_cores(std::string_view list) {
  cpu_set_t own, near, both;
  CPU_ZERO(&near);
  const bool is_list = for_each_core(list, [&](int core) { CPU_SET(static_cast<size_t>(core), &near); });
  if (!is_list || sched_getaffinity(0, sizeof own, &own) != 0) return 0;
  CPU_AND(&both, &own, &near);
  const int kept = CPU_COUNT(&both);
  if (kept == 0 || kept == CPU_COUNT(&own)) return 0;
  return sched_setaffinity(0, sizeof both, &both) == 0 ? kept : 0;
}

int quota_cores(const std::filesystem::path& mount, const std::filesystem::path& membership) {
  int least = 0;
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {  // ID:CONTROLLERS:PATH, no controllers in version 2
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!has_cpu(controllers)) continue;
    const std::filesystem::path root = mount / controllers;  // as version 1 is mounted
    // In a container the path may be the host's: what is not there limits nothing, up to the container's own root.
    for (std::filesystem::path group = line.substr(second + 1);; group = group.parent_path()) {
      const int cores = group_cores(root / group.relative_path());
      if (cores > 0 && (least == 0 || cores < least)) least = cores;
      if (!group.has_relative_path()) break;
    }
  }
  return least;
}

int usable_cores() {
  const int affinity = std::max(1, affinity_cores());
  const int quota = quota_cores("/sys/fs/cgroup", "/proc/self/cgroup");
  return quota > 0 ? std::min(affinity, quota) : affinity;
}

void check_workers(int64_t count, std::string_view asked, std::string_view noun) {
  constexpr int64_t kMostPerCore = 64;
  const int cores = usable_cores();
  if (count <= kMostPerCore * cores) return;
  throw UserError(std::string(asked) + " asks for " + std::to_string(count) + " " + std::string(noun) +
                  " on this machine, which has " + std::to_string(cores) + " usable core" + (cores == 1 ? "" : "s") +
                  "; ask for at most " + std::to_string(kMostPerCore * cores));
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown host";
}

}  // namespace cohort::host
