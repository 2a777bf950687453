#include <cohort/host/machine.hpp>

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

namespace cohort::host {
namespace {

// "max 100000" or "150000 100000": microseconds of CPU time per period (cgroup v2, as a container sees its own root).
int cgroup_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || period <= 0 || quota <= 0) return 0;
  return static_cast<int>(std::ceil(quota / period));
}

int affinity_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

int usable_cores() {
  const int affinity = std::max(1, affinity_cores());
  const int quota = cgroup_cores();
  return quota > 0 ? std::min(affinity, quota) : affinity;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown host";
}

}  // namespace cohort::host
