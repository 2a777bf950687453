// Compiled once for each instruction set, in namespace COHORT_ISA. Everything here must be internal or inlined.
#include <cohort/api/tensor.h>
#include <cohort/sdk/reduce_ops.hpp>

#include "ring_change.hpp"

namespace cohort::bagua::COHORT_ISA {

namespace {

template <class T>
void write(const RingChange& change) {
  using E = sdk::Element<T>;
  using A = typename E::Accumulator;
  T* x = static_cast<T*>(change.x);
  const T* left = static_cast<const T*>(change.left);
  const T* right = static_cast<const T*>(change.right);
  const T* own = static_cast<const T*>(change.own);
  constexpr A kThree = 3, kFive = 5;
  COHORT_SDK_INDEPENDENT
  for (uint64_t i = 0; i < change.numel; ++i) {
    const A z = E::load(x[i]) + E::load(left[i]) / kThree + E::load(right[i]) / kThree;
    x[i] = E::store(z - kFive * E::load(own[i]) / kThree);
  }
}

}  // namespace

void write_ring_change(const RingChange& change) {
  switch (change.dtype) {
    case COHORT_FLOAT64:
      return write<double>(change);
    case COHORT_FLOAT16:
      return write<sdk::Half>(change);
    case COHORT_BFLOAT16:
      return write<sdk::BFloat16>(change);
    default:
      return write<float>(change);
  }
}

}  // namespace cohort::bagua::COHORT_ISA
