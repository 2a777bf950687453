// The table cohort.kernels.core/1 for CPU memory, in portable C++.
//
//   struct Avx2 {};                                                        // a type that only this file has
//   const cohort_kernels_core_1& table = sdk::portable::CoreKernels<Avx2>::kTable;
//
// `Isa` is another type in each file, because files may be compiled for different instruction sets and the linker must
// not merge their functions. All give the same bits if compiled without contraction (-ffp-contract=off). A kernel runs
// on the calling thread.
#pragma once

#include <cohort/api/kernels.h>
#include <cohort/sdk/portable/elements.hpp>
#include <cohort/sdk/portable/reductions.hpp>

namespace cohort::sdk {
inline namespace v1 {
namespace portable {

template <class Isa>
struct CoreKernels {
  using Sums = Reductions<Isa>;

  template <class T>
  static void fill_with(void* out, uint64_t n, T value) {
    T* to = static_cast<T*>(out);
    for (uint64_t i = 0; i < n; ++i) to[i] = value;
  }

  // Fills with `value`, clamped to the range of T; NaN becomes 0.
  template <class T>
  static void fill_integer(void* out, uint64_t n, double value) {
    constexpr bool kIsSigned = static_cast<T>(-1) < static_cast<T>(0);
    constexpr int kBits = 8 * sizeof(T) - (kIsSigned ? 1 : 0);
    constexpr uint64_t kMax = ~uint64_t{0} >> (64 - kBits);
    constexpr double kEnd = 2.0 * static_cast<double>(uint64_t{1} << (kBits - 1));
    constexpr double kLowest = kIsSigned ? -kEnd : 0.0;
    if (value >= kEnd) return fill_with<T>(out, n, static_cast<T>(kMax));
    if (value <= kLowest) return fill_with<T>(out, n, static_cast<T>(kLowest));
    fill_with<T>(out, n, value == value ? static_cast<T>(value) : static_cast<T>(0));
  }

  static cohort_status fill(cohort_accelerator*, void* out, int32_t dtype, uint64_t n, double value,
                            const cohort_stream*) noexcept {
    switch (dtype) {
      case COHORT_INT8:
        fill_integer<int8_t>(out, n, value);
        return COHORT_OK;
      case COHORT_INT16:
        fill_integer<int16_t>(out, n, value);
        return COHORT_OK;
      case COHORT_INT32:
        fill_integer<int32_t>(out, n, value);
        return COHORT_OK;
      case COHORT_INT64:
        fill_integer<int64_t>(out, n, value);
        return COHORT_OK;
      case COHORT_UINT8:
        fill_integer<uint8_t>(out, n, value);
        return COHORT_OK;
      case COHORT_UINT64:
        fill_integer<uint64_t>(out, n, value);
        return COHORT_OK;
      case COHORT_BOOL:
        fill_with<uint8_t>(out, n, value != 0 ? 1 : 0);
        return COHORT_OK;
      default:
        return for_floating(dtype, [=](auto tag) {
          using T = typename decltype(tag)::Type;
          fill_with<T>(out, n, Store<T>::from(value));
        });
    }
  }

  static cohort_status copy(cohort_accelerator*, void* out, const void* in, uint64_t nbytes,
                            const cohort_stream*) noexcept {
    if (nbytes != 0 && out != in) __builtin_memcpy(out, in, nbytes);
    return COHORT_OK;
  }

  static cohort_status scale(cohort_accelerator*, void* out, const void* in, int32_t dtype, uint64_t n, double factor,
                             const cohort_stream*) noexcept {
    return for_floating(dtype, [=](auto tag) {
      using T = typename decltype(tag)::Type;
      const auto by = static_cast<typename Math<T>::Type>(factor);
      T* to = static_cast<T*>(out);
      const T* from = static_cast<const T*>(in);
      COHORT_SDK_INDEPENDENT
      for (uint64_t i = 0; i < n; ++i) to[i] = Store<T>::from(by * load(from[i]));
    });
  }

  static cohort_status axpby(cohort_accelerator*, void* out, const void* x, int32_t dtype, uint64_t n, double p,
                             double q, const cohort_stream*) noexcept {
    return for_floating(dtype, [=](auto tag) {
      using T = typename decltype(tag)::Type;
      const auto by_x = static_cast<typename Math<T>::Type>(p);
      const auto by_out = static_cast<typename Math<T>::Type>(q);
      T* to = static_cast<T*>(out);
      const T* from = static_cast<const T*>(x);
      COHORT_SDK_INDEPENDENT
      for (uint64_t i = 0; i < n; ++i) to[i] = Store<T>::from(by_x * load(from[i]) + by_out * load(to[i]));
    });
  }

  // Casts in plain loops, because only types of one size may share memory.
  static cohort_status cast(cohort_accelerator* a, void* out, int32_t out_dtype, const void* in, int32_t in_dtype,
                            uint64_t n, const cohort_stream* stream) noexcept {
    if (out_dtype == in_dtype) {
      return is_floating(in_dtype) ? copy(a, out, in, n * size_of(in_dtype), stream) : refusal_of(in_dtype);
    }
    cohort_status of_in = COHORT_OK;
    const cohort_status of_out = for_floating(out_dtype, [&](auto out_tag) {
      using To = typename decltype(out_tag)::Type;
      of_in = for_floating(in_dtype, [=](auto in_tag) {
        using From = typename decltype(in_tag)::Type;
        To* to = static_cast<To*>(out);
        const From* from = static_cast<const From*>(in);
        COHORT_SDK_INDEPENDENT
        for (uint64_t i = 0; i < n; ++i) to[i] = Store<To>::from(load(from[i]));
      });
    });
    return of_out != COHORT_OK ? of_out : of_in;
  }

  static cohort_status sum_of_n(cohort_accelerator*, void* out, const void* const* inputs, uint64_t num_inputs,
                                int32_t dtype, uint64_t n, double factor, const cohort_stream*) noexcept {
    if (num_inputs == 0) return COHORT_INVALID_ARGUMENT;
    return for_floating(dtype, [=](auto tag) {
      using T = typename decltype(tag)::Type;
      using A = typename Math<T>::Type;
      constexpr uint64_t kTile = 2048;  // elements: the sums stay in the first-level cache
      alignas(64) A tile[kTile];
      const A by = static_cast<A>(factor);
      for (uint64_t begin = 0; begin < n; begin += kTile) {
        const uint64_t count = n - begin < kTile ? n - begin : kTile;
        const T* first = static_cast<const T*>(inputs[0]) + begin;
        for (uint64_t i = 0; i < count; ++i) tile[i] = load(first[i]);
        for (uint64_t input = 1; input < num_inputs; ++input) {
          const T* next = static_cast<const T*>(inputs[input]) + begin;
          for (uint64_t i = 0; i < count; ++i) tile[i] += load(next[i]);
        }
        T* to = static_cast<T*>(out) + begin;
        for (uint64_t i = 0; i < count; ++i) to[i] = Store<T>::from(by * tile[i]);
      }
    });
  }

  static constexpr cohort_kernels_core_1 kTable{sizeof(cohort_kernels_core_1),
                                                0,
                                                nullptr,
                                                fill,
                                                copy,
                                                scale,
                                                axpby,
                                                cast,
                                                sum_of_n,
                                                Sums::square_sum,
                                                Sums::dot,
                                                Sums::found_inf};
};

}  // namespace portable
}  // namespace v1
}  // namespace cohort::sdk
