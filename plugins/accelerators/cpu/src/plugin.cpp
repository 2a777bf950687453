// The accelerator `cpu`.
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>

#include <cohort/sdk/accelerator.hpp>

#include "kernels.hpp"

namespace {

namespace sdk = cohort::sdk;

/// Returns "AMD EPYC 9654", or "CPU" if the system does not name it.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 10, "model name") != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "CPU";
}

/// Returns the number of cores that this process may run on, at least 1.
int32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<int32_t>(CPU_COUNT(&set)) : 1;
}

uint64_t memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : 0;
}

class Cpu : public sdk::Accelerator<Cpu> {
 public:
  static constexpr int32_t kDeviceType = COHORT_DEVICE_CPU;
  static constexpr const char* kTorchDeviceType = "cpu";

  void create(const sdk::Options& options) {
    const std::string isa(options.text("isa"));
    kernels_ = cohort::cpu::kernels_for(isa);
    if (!kernels_) {
      throw sdk::invalid_argument("this processor or this build of the cpu plugin has no " + isa +
                                  " instructions; use isa=auto");
    }
  }

  /// Ranks share cores, so this is no limit on how many CPU devices may be asked for.
  int32_t device_count() { return usable_cores(); }

  void device_info(int32_t index, cohort_device_info& info) {
    select(index);
    info.device_type = kDeviceType;
    info.device_index = index;
    info.memory_bytes = memory_bytes();
    std::memset(info.name, 0, sizeof info.name);
    std::strncpy(info.name, processor_name().c_str(), sizeof info.name - 1);
  }

  void select(int32_t index) {
    if (index < 0) throw sdk::invalid_argument("there is no CPU device " + std::to_string(index));
  }

  const void* kernels(const char* id) { return kernels_->find(id); }

 private:
  const cohort::cpu::KernelTables* kernels_ = nullptr;
};

constexpr cohort_option kOptions[] = {
    sdk::option("isa", "enum(auto|baseline|avx2|avx512)", "auto", "instructions that the kernels use"),
};

constexpr cohort_component kCpu = sdk::accelerator<Cpu>("cpu", "CPU tensors, with kernels for this processor")
                                      .options(kOptions)
                                      .supports<cohort::sdk::yes_to_known>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.cpu", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kCpu)
