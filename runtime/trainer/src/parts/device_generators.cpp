#include "parts/device_generators.hpp"

#include <mutex>

#include <ATen/Context.h>

namespace cohort {
namespace {

/// Calls use(default generator of the device) under its lock.
template <class Use>
auto locked(c10::Device device, const Use& use) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::scoped_lock lock(generator.unsafeGetGeneratorImpl()->mutex_);
  return use(generator);
}

}  // namespace

KeptGenerators::KeptGenerators(std::span<const c10::Device> devices) {
  for (const c10::Device device : devices) {
    if (!device.is_cpu()) states_.try_emplace(device.index(), device, generator_state_of(device));
  }
}

KeptGenerators::~KeptGenerators() {
  for (const auto& [index, kept] : states_) set_generator_state_of(kept.first, kept.second);
}

at::Tensor generator_state_of(c10::Device device) {
  return locked(device, [](const at::Generator& generator) { return generator.get_state(); });
}

void set_generator_state_of(c10::Device device, const at::Tensor& state) {
  locked(device, [&](at::Generator& generator) { generator.set_state(state); });
}

void seed_generator_of(c10::Device device, uint64_t seed) {
  locked(device, [&](at::Generator& generator) { generator.set_current_seed(seed); });
}

at::Generator copied_generator_of(c10::Device device) {
  return locked(device, [](const at::Generator& generator) { return generator.clone(); });
}

}  // namespace cohort
