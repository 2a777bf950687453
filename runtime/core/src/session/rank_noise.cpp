#include <cohort/rank_noise.hpp>

#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <cohort/mixed.hpp>
#include <cohort/runtime.hpp>

namespace cohort {
namespace {

enum Purpose : uint64_t { kModel = 1, kProgram = 2 };

uint64_t with(uint64_t seed, uint64_t part) {
  return mixed(mixed(seed) + part);
}

void seed(at::Generator generator, uint64_t value) {
  const std::scoped_lock lock(generator.mutex());
  generator.set_current_seed(value);
}

// Before ranks are connected they have no devices: a process that forks them must not use one.
void seed_all(const Runtime& runtime, uint64_t value) {
  seed(at::detail::getDefaultCPUGenerator(), value);
  if (!runtime.is_connected()) return;
  uint64_t place = 0;
  for (const c10::Device& device : runtime.devices()) {
    if (!device.is_cpu()) seed(at::globalContext().defaultGenerator(device), with(value, place));
    ++place;
  }
}

}  // namespace

void seed_model(const Runtime& runtime, std::initializer_list<uint64_t> parts) {
  const bool is_apart = runtime.options().rank_noise == RankNoise::kApart;
  uint64_t value = with(with(runtime.options().seed, kModel), is_apart ? static_cast<uint64_t>(runtime.rank()) : 0);
  for (const uint64_t part : parts) value = with(value, part);
  seed_all(runtime, value);
}

void seed_program(const Runtime& runtime, std::initializer_list<uint64_t> parts) {
  uint64_t value = with(runtime.options().seed, kProgram);
  for (const uint64_t part : parts) value = with(value, part);
  seed_all(runtime, value);
}

}  // namespace cohort
