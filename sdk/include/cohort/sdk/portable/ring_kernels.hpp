// The table cohort.kernels.ring/1 for CPU memory, in portable C++; see core_kernels.hpp.
#pragma once

#include <cohort/api/kernels.h>
#include <cohort/sdk/portable/elements.hpp>

namespace cohort::sdk {
inline namespace v1 {
namespace portable {

template <class Isa>
struct RingKernels {
  static cohort_status change(cohort_accelerator*, void* x, const void* left, const void* right, const void* own,
                              int32_t dtype, uint64_t n, const cohort_stream*) noexcept {
    return for_floating(dtype, [=](auto tag) {
      using T = typename decltype(tag)::Type;
      using A = typename Math<T>::Type;
      constexpr A kThree = 3, kFive = 5;
      T* z = static_cast<T*>(x);
      const T* l = static_cast<const T*>(left);
      const T* r = static_cast<const T*>(right);
      const T* w = static_cast<const T*>(own);
      COHORT_SDK_INDEPENDENT
      for (uint64_t i = 0; i < n; ++i) {
        const A sum = load(z[i]) + load(l[i]) / kThree + load(r[i]) / kThree;
        z[i] = Store<T>::from(sum - kFive * load(w[i]) / kThree);
      }
    });
  }

  static constexpr cohort_kernels_ring_1 kTable{sizeof(cohort_kernels_ring_1), 0, nullptr, change};
};

}  // namespace portable
}  // namespace v1
}  // namespace cohort::sdk
