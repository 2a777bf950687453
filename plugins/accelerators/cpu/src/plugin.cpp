// The accelerator `cpu`.
#include <cstring>
#include <string>

#include <cohort/sdk/accelerator.hpp>

#include "kernels.hpp"
#include "machine.hpp"

namespace {

namespace sdk = cohort::sdk;

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
  int32_t device_count() { return cohort::cpu::usable_cores(); }

  void device_info(int32_t index, cohort_device_info& info) {
    select(index);
    info.device_type = kDeviceType;
    info.device_index = index;
    info.memory_bytes = cohort::cpu::memory_bytes();
    std::memset(info.name, 0, sizeof info.name);
    std::strncpy(info.name, cohort::cpu::processor_name().c_str(), sizeof info.name - 1);
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
