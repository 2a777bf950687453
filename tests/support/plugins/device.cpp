// The accelerator `device`: its memory is fake_device.hpp's, its copies happen when they are waited for, not before.
// Pinned memory that is freed before a copy has used it ends the program.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <cohort/sdk/accelerator.hpp>

#include "fake_device.hpp"

namespace {

namespace sdk = cohort::sdk;
using cohort::test::DeviceMemory;

class Device : public sdk::Accelerator<Device> {
 public:
  static constexpr int32_t kDeviceType = DeviceMemory::kDeviceType;
  static constexpr const char* kTorchDeviceType = "privateuseone";

  ~Device() {
    if (!pinned_.empty()) log().error("pinned memory was not given back");
  }

  int32_t device_count() { return 8; }

  void* alloc_pinned(uint64_t nbytes) {
    const std::lock_guard lock(mutex_);
    auto memory = std::make_unique<std::byte[]>(nbytes);
    std::memset(memory.get(), 0xee, nbytes);
    std::byte* const address = memory.get();
    pinned_[address] = {std::move(memory), nbytes};
    return address;
  }
  void free_pinned(void* memory) {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, copies] : streams_) {
      for (const Copy& copy : copies) refuse_use(copy, memory);
    }
    pinned_.erase(static_cast<std::byte*>(memory));
  }
  void copy_to_host(void* pinned, const void* device, uint64_t nbytes, const cohort_stream& stream) {
    enqueue(stream, {pinned, static_cast<const std::byte*>(device) + DeviceMemory::kDistance, nbytes});
  }
  void copy_to_device(void* device, const void* pinned, uint64_t nbytes, const cohort_stream& stream) {
    enqueue(stream, {static_cast<std::byte*>(device) + DeviceMemory::kDistance, pinned, nbytes});
  }
  void wait(const cohort_stream& stream) {
    const std::lock_guard lock(mutex_);
    for (const Copy& copy : streams_[stream.native]) std::memcpy(copy.to, copy.from, copy.nbytes);
    streams_[stream.native].clear();
  }

 private:
  struct Copy {
    void* to;
    const void* from;
    uint64_t nbytes;
  };
  std::mutex mutex_;
  struct Pinned {
    std::unique_ptr<std::byte[]> memory;
    uint64_t nbytes;
  };
  std::map<std::byte*, Pinned> pinned_;
  std::map<void*, std::vector<Copy>> streams_;

  void refuse_use(const Copy& copy, void* memory) const {
    const auto* const first = static_cast<const std::byte*>(memory);
    const auto* const last = first + pinned_.at(static_cast<std::byte*>(memory)).nbytes;
    const auto lies_in = [&](const void* place) {
      return !std::less<>()(static_cast<const std::byte*>(place), first) &&
             std::less<>()(static_cast<const std::byte*>(place), last);
    };
    if (!lies_in(copy.to) && !lies_in(copy.from)) return;
    std::fputs("device: pinned memory was freed before a copy had used it\n", stderr);
    std::abort();
  }

  void enqueue(const cohort_stream& stream, const Copy& copy) {
    if (copy.nbytes == DeviceMemory::kRefusedBytes)
      throw sdk::Error(COHORT_INTERNAL, "it refuses to copy so many bytes");
    if (stream.device_type != kDeviceType) throw sdk::invalid_argument("a stream of another device");
    const std::lock_guard lock(mutex_);
    streams_[stream.native].push_back(copy);
  }
};

constexpr cohort_component kDevice = sdk::accelerator<Device>("device", "memory that only copies reach");

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.test.device", "1.0.0", "cohort", "Apache-2.0", kDevice)
