// The default generators of devices, from which operators draw that take no other one.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

namespace cohort {

/// Keeps the states of the default generators of devices, and restores them when it ends.
class KeptGenerators {
 public:
  explicit KeptGenerators(std::span<const c10::Device> devices);
  ~KeptGenerators();
  KeptGenerators(const KeptGenerators&) = delete;
  KeptGenerators& operator=(const KeptGenerators&) = delete;

 private:
  std::map<c10::DeviceIndex, std::pair<c10::Device, at::Tensor>> states_;
};

/// Returns the state of the default generator of a device.
at::Tensor generator_state_of(c10::Device device);
/// Gives the default generator of a device this state.
void set_generator_state_of(c10::Device device, const at::Tensor& state);
/// Seeds the default generator of a device.
void seed_generator_of(c10::Device device, uint64_t seed);
/// Returns a copy of the default generator of a device.
at::Generator copied_generator_of(c10::Device device);

}  // namespace cohort
