#include "checkpoint/generators.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include <cohort/host/error.hpp>

namespace cohort {
namespace {

/// Returns "cohort.generator.cuda.1".
std::string name_of(std::span<const c10::Device> devices, size_t place) {
  return "cohort.generator." + c10::DeviceTypeName(devices[place].type(), /*lower_case=*/true) + "." +
         std::to_string(place);
}

[[noreturn]] void refuse(const std::string& file) {
  throw UserError(file + " holds the state of another random number generator; was it written by another LibTorch?");
}

}  // namespace

at::Tensor generator_state() {
  return at::detail::getDefaultCPUGenerator().get_state();
}

void check_generator_state(const at::Tensor& state, const std::string& file) {
  at::Generator generator = at::detail::createCPUGenerator();
  const at::Tensor own = generator.get_state();
  bool fits = state.scalar_type() == own.scalar_type() && state.sizes() == own.sizes();
  try {
    if (fits) generator.set_state(state.clone());
  } catch (const c10::Error&) {
    fits = false;
  }
  if (!fits) refuse(file);
}

void set_generator_state(const at::Tensor& state, const std::string& file) {
  check_generator_state(state, file);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state.clone());
}

void save_generators(const StateWriter& state, std::span<const c10::Device> devices) {
  state.put(kGeneratorName, generator_state());
  for (size_t place = 0; place < devices.size(); ++place) {
    if (devices[place].is_cpu()) continue;
    state.put(name_of(devices, place), at::globalContext().defaultGenerator(devices[place]).get_state());
  }
}

void set_device_generator_states(std::span<const c10::Device> devices, const TensorIndex& tensors,
                                 const std::string& file) {
  for (size_t place = 0; place < devices.size(); ++place) {
    if (devices[place].is_cpu()) continue;
    const at::Tensor* const state = find_tensor(tensors, name_of(devices, place));
    if (!state) continue;
    at::Generator generator = at::globalContext().defaultGenerator(devices[place]);
    try {
      generator.set_state(state->clone());
    } catch (const c10::Error&) {
      refuse(file);
    }
  }
}

}  // namespace cohort
