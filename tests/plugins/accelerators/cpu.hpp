// The accelerator `cpu` as its tests drive it: through the C ABI, once for each instruction set, on odd addresses.
#pragma once

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "elements.hpp"
#include "fake_host.hpp"
#include "plugin_file.hpp"

namespace cohort::test {

using sdk::size_of;

inline constexpr uint64_t kSizes[] = {0, 1, 3, 63, 64, 65, 4099, 1000003};
inline constexpr int32_t kFloats[] = {COHORT_FLOAT32, COHORT_FLOAT64, COHORT_FLOAT16, COHORT_BFLOAT16};
inline const cohort_stream kStream{nullptr, COHORT_DEVICE_CPU, 0};

class Cpu {
 public:
  Cpu() : object_{sizeof(cohort_accelerator), 0, vtable(), nullptr, host.raw()} {}
  ~Cpu() { object_.vt->destroy(&object_); }

  static const cohort_accelerator_vt* vtable() {
    return static_cast<const cohort_accelerator_vt*>(
        component_of(open_plugin(COHORT_TEST_PLUGIN), COHORT_KIND_ACCELERATOR).vtable);
  }
  cohort_status create(const char* isa) {
    const cohort_key_value option{"isa", isa};
    return object_.vt->create(&object_, &option, 1);
  }
  /// Its functions need no accelerator: their first argument is null here.
  const cohort_kernels_core_1& kernels() { return table<cohort_kernels_core_1>(COHORT_KERNELS_CORE_ID); }
  const cohort_kernels_minmax_uint8_1& codec() {
    return table<cohort_kernels_minmax_uint8_1>(COHORT_KERNELS_MINMAX_UINT8_ID);
  }
  const cohort_kernels_adam_1& adam() { return table<cohort_kernels_adam_1>(COHORT_KERNELS_ADAM_ID); }
  cohort_accelerator* object() { return &object_; }

  FakeHost host;

 private:
  cohort_accelerator object_;

  template <class Table>
  const Table& table(const char* id) {
    return *static_cast<const Table*>(object_.vt->kernels(&object_, id));
  }
};

/// The accelerator once for each instruction set of this machine.
inline std::map<std::string, std::unique_ptr<Cpu>> all_isas() {
  std::map<std::string, std::unique_ptr<Cpu>> result;
  for (const char* isa : {"baseline", "avx2", "avx512"}) {
    auto cpu = std::make_unique<Cpu>();
    if (cpu->create(isa) == COHORT_OK) result[isa] = std::move(cpu);
  }
  return result;
}

/// Elements that begin right after the alignment of a vector register.
class Elements {
 public:
  Elements(int32_t dtype, uint64_t n) : dtype_(dtype), n_(n), memory_((n + 1) * size_of(dtype) + 64) {}
  std::byte* data() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (64 - address % 64) % 64 + size_of(dtype_);
  }
  uint64_t size() const { return n_; }
  uint64_t nbytes() const { return n_ * size_of(dtype_); }
  double operator[](uint64_t i) { return get_element(data(), dtype_, i); }

 private:
  int32_t dtype_;
  uint64_t n_;
  std::vector<std::byte> memory_;
};

/// Values over many magnitudes with zeros, infinities and NaN among them.
inline Elements mixed(int32_t dtype, uint64_t n, uint64_t seed) {
  Elements elements(dtype, n);
  uint64_t state = seed * 2654435761u + 1;
  for (uint64_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double mantissa = static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
    double value = std::ldexp(mantissa, static_cast<int>(state % 41) - 24);
    if (i % 97 == 5) value = 0.0;
    if (i % 101 == 7) value = std::numeric_limits<double>::infinity();
    if (i % 103 == 9) value = std::numeric_limits<double>::quiet_NaN();
    put_element(elements.data(), dtype, i, value);
  }
  return elements;
}

inline Elements finite(int32_t dtype, uint64_t n, uint64_t seed) {
  Elements elements(dtype, n);
  for (uint64_t i = 0; i < n; ++i) {
    put_element(elements.data(), dtype, i, static_cast<double>((i * 7919 + seed * 31) % 2001) / 64.0 - 15.0);
  }
  return elements;
}

}  // namespace cohort::test
