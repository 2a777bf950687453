#include "generator.hpp"

#include <array>

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GeneratorImpl.h>

namespace fake_torch {
namespace {

class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  DeviceGenerator(c10::Device device, at::Generator cpu)
      : GeneratorImpl(device, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), cpu_(std::move(cpu)) {}

  void set_current_seed(uint64_t seed) override { cpu_.set_current_seed(seed); }
  uint64_t current_seed() const override { return cpu_.current_seed(); }
  uint64_t seed() override { return cpu_.seed(); }
  void set_offset(uint64_t offset) override { cpu_.set_offset(offset); }
  uint64_t get_offset() const override { return cpu_.get_offset(); }
  void set_state(const c10::TensorImpl& state) override { cpu_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return cpu_.unsafeGetGeneratorImpl()->get_state(); }

  const at::Generator& cpu() const { return cpu_; }

 private:
  at::Generator cpu_;

  DeviceGenerator* clone_impl() const override { return new DeviceGenerator(device_, cpu_.clone()); }
};

}  // namespace

at::Generator make_generator(c10::Device device) {
  return at::make_generator<DeviceGenerator>(device, at::detail::createCPUGenerator());
}

const at::Generator& default_generator(c10::Device device) {
  static const auto& generators = *[] {
    auto* const made = new std::array<at::Generator, FAKEDRV_DEVICES>;
    for (int index = 0; index < FAKEDRV_DEVICES; ++index)
      (*made)[static_cast<size_t>(index)] = make_generator(device_at(index));
    return made;
  }();
  return generators[static_cast<size_t>(device.index())];
}

const at::Generator& drawn_from(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == kFake, "expected a generator of a fake device, not one of ",
              generator.device());
  return static_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())->cpu();
}

}  // namespace fake_torch
