// The table cohort.kernels.core/1.
#include "fill.cuh"
#include "map.cuh"
#include "reductions.cuh"
#include "sum.cuh"
#include "tables.hpp"
#include "types.cuh"

namespace cohort::cuda {
namespace {

using Accelerator = cohort_accelerator*;
using Stream = const cohort_stream*;

template <class A>
struct Axpby {
  A p, q;
  __device__ A operator()(const A (&values)[2]) const { return p * values[0] + q * values[1]; }
};
template <class A>
struct Same {
  __device__ A operator()(const A (&values)[1]) const { return values[0]; }
};

cohort_status fill(Accelerator a, void* out, int32_t dtype, uint64_t n, double value, Stream stream) noexcept {
  return run(a, stream, "fill", [&](Call& call) {
    const Element element = element_of(dtype, value);
    if (element.size == 0) refuse_type("fill", dtype);
    if (n == 0) return;
    if (element.size == 1) return fill_with<uint8_t>(call, out, n, element.bits);
    if (element.size == 2) return fill_with<uint16_t>(call, out, n, element.bits);
    if (element.size == 4) return fill_with<uint32_t>(call, out, n, element.bits);
    fill_with<uint64_t>(call, out, n, element.bits);
  });
}

// The driver's copy, which reaches memory of another device, too.
cohort_status copy(Accelerator a, void* out, const void* in, uint64_t nbytes, Stream stream) noexcept {
  return run(a, stream, "copy", [&](Call& call) {
    if (nbytes > 0 && out != in) call.check(cudaMemcpyAsync(out, in, nbytes, cudaMemcpyDefault, call.stream()));
  });
}

cohort_status scale(Accelerator a, void* out, const void* in, int32_t dtype, uint64_t n, double factor,
                    Stream stream) noexcept {
  return run_floating(a, stream, "scale", dtype, [&](Call& call, auto tag) {
    using T = typename decltype(tag)::Type;
    map<T>(call, Sum<Math<T>>{static_cast<Math<T>>(factor)}, n, static_cast<T*>(out), in);
  });
}

cohort_status axpby(Accelerator a, void* out, const void* x, int32_t dtype, uint64_t n, double p, double q,
                    Stream stream) noexcept {
  return run_floating(a, stream, "axpby", dtype, [&](Call& call, auto tag) {
    using T = typename decltype(tag)::Type;
    const Axpby<Math<T>> op{static_cast<Math<T>>(p), static_cast<Math<T>>(q)};
    map<T>(call, op, n, static_cast<T*>(out), x, out);
  });
}

template <class To, class From>
void cast_to(Call& call, void* out, const void* in, uint64_t n) {
  map<From>(call, Same<Math<From>>{}, n, static_cast<To*>(out), in);
}

cohort_status cast(Accelerator a, void* out, int32_t out_dtype, const void* in, int32_t in_dtype, uint64_t n,
                   Stream stream) noexcept {
  if (out_dtype == in_dtype && sdk::is_floating(in_dtype)) return copy(a, out, in, n * sdk::size_of(in_dtype), stream);
  return run_floating(a, stream, "cast", out_dtype, [&](Call& call, auto out_tag) {
    for_floating("cast", in_dtype, [&](auto in_tag) {
      cast_to<typename decltype(out_tag)::Type, typename decltype(in_tag)::Type>(call, out, in, n);
    });
  });
}

cohort_status sum_of_n(Accelerator a, void* out, const void* const* inputs, uint64_t num_inputs, int32_t dtype,
                       uint64_t n, double factor, Stream stream) noexcept {
  return run_floating(a, stream, "sum_of_n", dtype, [&](Call& call, auto tag) {
    if (num_inputs == 0) throw sdk::invalid_argument("sum_of_n has no inputs, and needs one at least");
    if (n > 0) sum(call, static_cast<typename decltype(tag)::Type*>(out), inputs, num_inputs, n, factor);
  });
}

cohort_status dot(Accelerator a, const void* x, const void* y, int32_t dtype, uint64_t n, double* result,
                  Stream stream) noexcept {
  return run_floating(a, stream, "dot", dtype,
                      [&](Call& call, auto tag) { dot_of<typename decltype(tag)::Type>(call, n, result, x, y); });
}

cohort_status square_sum(Accelerator a, const void* in, int32_t dtype, uint64_t n, double* result,
                         Stream stream) noexcept {
  return run_floating(a, stream, "square_sum", dtype,
                      [&](Call& call, auto tag) { dot_of<typename decltype(tag)::Type>(call, n, result, in); });
}

cohort_status found_inf(Accelerator a, const void* in, int32_t dtype, uint64_t n, uint32_t* found,
                        Stream stream) noexcept {
  return run(a, stream, "found_inf", [&](Call& call) {
    switch (dtype) {
      case COHORT_FLOAT32:
        return find_exponent<uint32_t>(call, in, n, 0x7f800000u, found);
      case COHORT_FLOAT64:
        return find_exponent<uint64_t>(call, in, n, 0x7ff0000000000000u, found);
      case COHORT_FLOAT16:
        return find_exponent<uint16_t>(call, in, n, 0x7c00u, found);
      case COHORT_BFLOAT16:
        return find_exponent<uint16_t>(call, in, n, 0x7f80u, found);
      default:
        refuse_type("found_inf", dtype);
    }
  });
}

constexpr cohort_kernels_core_1 kTable{
    sizeof(cohort_kernels_core_1), 0, nullptr, fill, copy, scale, axpby, cast, sum_of_n, square_sum, dot, found_inf};

}  // namespace

const cohort_kernels_core_1& core_table() {
  return kTable;
}

}  // namespace cohort::cuda
