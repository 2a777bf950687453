#include "memory_left.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <cohort/sdk/error.hpp>

namespace cohort::shm {

namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

uint64_t left_on_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    uint64_t kib = 0;
    if (name == "MemAvailable:" && file >> kib) return kib << 10;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return kUnknown;
}

/// File contents that the kernel keeps only as long as nobody needs the memory.
uint64_t reclaimable_in_cgroup() {
  uint64_t sum = 0;
  uint64_t nbytes = 0;
  std::ifstream file("/sys/fs/cgroup/memory.stat");
  for (std::string name; file >> name >> nbytes;) {
    if (name == "inactive_file" || name == "active_file" || name == "slab_reclaimable") sum += nbytes;
  }
  return sum;
}

/// In a container the root of what it sees is its own cgroup; "max", which is no number, is no limit.
uint64_t left_in_cgroup() {
  uint64_t limit = 0;
  uint64_t used = 0;
  const bool is_limited = static_cast<bool>(std::ifstream("/sys/fs/cgroup/memory.max") >> limit);
  if (!is_limited || !(std::ifstream("/sys/fs/cgroup/memory.current") >> used)) return kUnknown;
  const uint64_t kept = used - std::min(used, reclaimable_in_cgroup());
  return limit > kept ? limit - kept : 0;
}

}  // namespace

uint64_t memory_left() {
  return std::min(left_on_machine(), left_in_cgroup());
}

void require_memory(uint64_t nbytes, int ranks) {
  const uint64_t left = memory_left();
  if (nbytes <= left / static_cast<uint64_t>(ranks)) return;
  throw sdk::Error(COHORT_RESOURCE_EXHAUSTED, "shm needs " + std::to_string(nbytes >> 20) + " MiB on each of " +
                                                  std::to_string(ranks) + " ranks but " + std::to_string(left >> 20) +
                                                  " MiB are left; start fewer ranks or raise the memory limit");
}

}  // namespace cohort::shm
