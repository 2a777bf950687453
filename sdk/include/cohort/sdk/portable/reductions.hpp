// The reductions of cohort.kernels.core/1 for CPU memory, in portable C++; see core_kernels.hpp.
#pragma once

#include <cohort/api/kernels.h>
#include <cohort/sdk/portable/elements.hpp>

namespace cohort::sdk {
inline namespace v1 {
namespace portable {

template <class Isa>
struct Reductions {
  // The number of partial sums. Element i goes to sum i % 16, and a fixed tree adds the sums, for any register width.
  static constexpr uint64_t kLanes = 16;
  typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));

  template <class T>
  static COHORT_SDK_INLINE void load_lanes(const T* in, Lanes& lanes) {
    double values[kLanes];
    for (uint64_t k = 0; k < kLanes; ++k) values[k] = static_cast<double>(load(in[k]));
    __builtin_memcpy(&lanes, values, sizeof lanes);
  }

  template <class T>
  static double dot_of(const T* a, const T* b, uint64_t n) {
    Lanes sums{};
    uint64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      Lanes x;
      Lanes y;
      load_lanes(a + i, x);
      load_lanes(b + i, y);
      sums += x * y;
    }
    double lanes[kLanes];
    __builtin_memcpy(lanes, &sums, sizeof lanes);
    for (uint64_t k = 0; i + k < n; ++k)
      lanes[k] += static_cast<double>(load(a[i + k])) * static_cast<double>(load(b[i + k]));
    for (uint64_t width = kLanes / 2; width > 0; width /= 2) {
      for (uint64_t k = 0; k < width; ++k) lanes[k] += lanes[k + width];
    }
    return lanes[0];
  }

  static cohort_status dot(cohort_accelerator*, const void* x, const void* y, int32_t dtype, uint64_t n, double* result,
                           const cohort_stream*) noexcept {
    return for_floating(dtype, [=](auto tag) {
      using T = typename decltype(tag)::Type;
      *result = dot_of(static_cast<const T*>(x), static_cast<const T*>(y), n);
    });
  }

  static cohort_status square_sum(cohort_accelerator* a, const void* in, int32_t dtype, uint64_t n, double* result,
                                  const cohort_stream* stream) noexcept {
    return dot(a, in, in, dtype, n, result, stream);
  }

  // Returns 1 if an element is NaN or infinite (all exponent bits are set), else 0.
  template <class Bits, Bits kExponent>
  static uint32_t any_with_exponent(const void* in, uint64_t n) {
    const Bits* bits = static_cast<const Bits*>(in);
    Bits found = 0;
    for (uint64_t i = 0; i < n; ++i) found = static_cast<Bits>(found | ((bits[i] & kExponent) == kExponent ? 1 : 0));
    return found != 0 ? 1 : 0;
  }

  static cohort_status found_inf(cohort_accelerator*, const void* in, int32_t dtype, uint64_t n, uint32_t* found,
                                 const cohort_stream*) noexcept {
    switch (dtype) {
      case COHORT_FLOAT32:
        *found = any_with_exponent<uint32_t, 0x7f800000u>(in, n);
        return COHORT_OK;
      case COHORT_FLOAT64:
        *found = any_with_exponent<uint64_t, 0x7ff0000000000000u>(in, n);
        return COHORT_OK;
      case COHORT_FLOAT16:
        *found = any_with_exponent<uint16_t, 0x7c00u>(in, n);
        return COHORT_OK;
      case COHORT_BFLOAT16:
        *found = any_with_exponent<uint16_t, 0x7f80u>(in, n);
        return COHORT_OK;
      default:
        return refusal_of(dtype);
    }
  }
};

}  // namespace portable
}  // namespace v1
}  // namespace cohort::sdk
