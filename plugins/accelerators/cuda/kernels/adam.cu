// The table cohort.kernels.adam/1.
#include "map.cuh"
#include "tables.hpp"
#include "types.cuh"

namespace cohort::cuda {
namespace {

__device__ inline float square_root(float value) {
  return sqrtf(value);
}
__device__ inline double square_root(double value) {
  return sqrt(value);
}

/// Computes with weight, momentum and square.
template <class A>
struct Step {
  A keep, rate, correction, eps;

  __device__ A operator()(const A (&values)[3]) const {
    const A second = values[2];
    const A change = rate * values[1] / (square_root(second) / correction + eps);
    return keep * values[0] - (second == 0 ? A{0} : change);
  }
};

cohort_status step(cohort_accelerator* a, void* weight, const void* momentum, const void* square, int32_t dtype,
                   uint64_t n, double keep, double rate, double correction, double eps,
                   const cohort_stream* stream) noexcept {
  return run_floating(a, stream, "adam", dtype, [&](Call& call, auto tag) {
    using T = typename decltype(tag)::Type;
    using A = Math<T>;
    const Step<A> op{static_cast<A>(keep), static_cast<A>(rate), static_cast<A>(correction), static_cast<A>(eps)};
    map<T>(call, op, n, static_cast<T*>(weight), weight, momentum, square);
  });
}

constexpr cohort_kernels_adam_1 kTable{sizeof(cohort_kernels_adam_1), 0, nullptr, step};

}  // namespace

const cohort_kernels_adam_1& adam_table() {
  return kTable;
}

}  // namespace cohort::cuda
