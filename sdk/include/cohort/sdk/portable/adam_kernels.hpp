// The table cohort.kernels.adam/1 for CPU memory, in portable C++; see core_kernels.hpp.
#pragma once

#include <cohort/api/kernels.h>
#include <cohort/sdk/portable/elements.hpp>

namespace cohort::sdk {
inline namespace v1 {
namespace portable {

template <class Isa>
struct AdamKernels {
  static COHORT_SDK_INLINE float square_root(float value) { return __builtin_sqrtf(value); }
  static COHORT_SDK_INLINE double square_root(double value) { return __builtin_sqrt(value); }

  static cohort_status step(cohort_accelerator*, void* weight, const void* momentum, const void* square, int32_t dtype,
                            uint64_t n, double keep, double rate, double correction, double eps,
                            const cohort_stream*) noexcept {
    return for_floating(dtype, [=](auto tag) {
      using T = typename decltype(tag)::Type;
      using A = typename Math<T>::Type;
      const A kept = static_cast<A>(keep), by = static_cast<A>(rate);
      const A corrected = static_cast<A>(correction), at_least = static_cast<A>(eps);
      T* w = static_cast<T*>(weight);
      const T* m = static_cast<const T*>(momentum);
      const T* v = static_cast<const T*>(square);
      COHORT_SDK_INDEPENDENT
      for (uint64_t i = 0; i < n; ++i) {
        const A second = load(v[i]);
        const A change = by * load(m[i]) / (square_root(second) / corrected + at_least);
        w[i] = Store<T>::from(kept * load(w[i]) - (second == 0 ? A{0} : change));
      }
    });
  }

  static constexpr cohort_kernels_adam_1 kTable{sizeof(cohort_kernels_adam_1), 0, nullptr, step};
};

}  // namespace portable
}  // namespace v1
}  // namespace cohort::sdk
