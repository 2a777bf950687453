// The hooks by which LibTorch asks an accelerator for generators, pinned memory and the device of an address.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "allocator.hpp"
#include "device.hpp"
#include "generator.hpp"

namespace fake_torch {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return index >= 0 && index < FAKEDRV_DEVICES; }
  void init() const override { initialize_allocator(); }

  c10::DeviceIndex deviceCount() const override { return FAKEDRV_DEVICES; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device().index(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { check(fakedrv_set_device(index)); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex before = getCurrentDevice();
    setCurrentDevice(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? getCurrentDevice() : exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(whole({kFake, index}));
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override { return make_generator(whole({kFake, index})); }

  c10::Device getDeviceFromPtr(void* memory) const override {
    const int index = fakedrv_device_of(memory);
    TORCH_CHECK(index >= 0, "this is no memory of a fake device");
    return device_at(index);
  }
  bool isPinnedPtr(const void* memory) const override { return fakedrv_is_pinned(memory) != 0; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    resize_bytes(*storage.unsafeGetStorageImpl(), nbytes);
  }
};

const bool are_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace
}  // namespace fake_torch
