// The accelerator `fake`: four devices without hardware.
#include <cstdio>
#include <cstring>
#include <string>

#include <cohort/sdk/accelerator.hpp>

#include "kernels.hpp"
#include "launch.hpp"

namespace {

namespace sdk = cohort::sdk;

class Fake : public sdk::Accelerator<Fake> {
 public:
  static constexpr int32_t kDeviceType = COHORT_DEVICE_EXT;
  static constexpr const char* kTorchDeviceType = "fake";
  static constexpr const char* kTorchLibrary = "libfake_torch.so";  // beside this; only LibTorch hosts open it

  int32_t device_count() { return FAKEDRV_DEVICES; }

  void device_info(int32_t index, cohort_device_info& info) {
    check_index(index);
    info.device_type = kDeviceType;
    info.device_index = index;
    info.memory_bytes = fakedrv_capacity(index);
    std::snprintf(info.name, sizeof info.name, "fake device %d", index);
    const char* const address = std::getenv("FAKE_DEVICE_PCI");
    if (address) std::snprintf(info.pci_address, sizeof info.pci_address, "%s", address);
  }

  void select(int32_t index) {
    check_index(index);
    fake::check(fakedrv_set_device(index));
  }

  void* alloc_pinned(uint64_t nbytes) {
    void* memory = nullptr;
    fake::check(fakedrv_alloc_pinned(nbytes, &memory));
    return memory;
  }
  void free_pinned(void* memory) { fake::check(fakedrv_free_pinned(memory)); }
  void copy_to_host(void* pinned, const void* device, uint64_t nbytes, const cohort_stream& stream) {
    fake::check(fakedrv_copy(fake::stream_of(stream), pinned, device, nbytes));
  }
  void copy_to_device(void* device, const void* pinned, uint64_t nbytes, const cohort_stream& stream) {
    fake::check(fakedrv_copy(fake::stream_of(stream), device, pinned, nbytes));
  }
  void wait(const cohort_stream& stream) { fake::check(fakedrv_wait(fake::stream_of(stream))); }

  const void* kernels(const char* id) { return fake::kernels(id); }

 private:
  static void check_index(int32_t index) {
    if (index < 0 || index >= FAKEDRV_DEVICES) {
      throw sdk::invalid_argument("there is no fake device " + std::to_string(index));
    }
  }
};

sdk::Answer supports(const sdk::Query& query) {
  if (query.use() == COHORT_USE_UNNAMED) return sdk::no("it has no hardware", "name it: --accelerator=fake");
  return sdk::yes_to_known(query);
}

constexpr cohort_component kFake =
    sdk::accelerator<Fake>("fake", "four devices without hardware, for tests").supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.fake", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kFake)
