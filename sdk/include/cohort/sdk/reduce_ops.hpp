// Reduce operations on single elements, with the meaning of COHORT_REDUCE_..., for loops in plugins and in the host.
//
//   using A = typename Element<T>::Accumulator;   // float for the 16-bit types
//   A sum = Sum<A>::apply(Element<T>::load(a), Element<T>::load(b));
//   out = Element<T>::store(sum);
//
// They are always inlined, so that no file uses a copy compiled for another instruction set.
#pragma once

#include <cohort/sdk/compiler.hpp>
#include <cohort/sdk/half.hpp>

namespace cohort::sdk {
inline namespace v1 {

// The unsigned type that lets integers wrap around. 16 bits are widened, because their product would be a signed int.
template <class T>
struct Wrapping {
  using type = T;
};
template <>
struct Wrapping<std::int8_t> {
  using type = std::uint8_t;
};
template <>
struct Wrapping<std::int16_t> {
  using type = std::uint32_t;
};
template <>
struct Wrapping<std::int32_t> {
  using type = std::uint32_t;
};
template <>
struct Wrapping<std::int64_t> {
  using type = std::uint64_t;
};

template <class A>
struct Sum {
  static COHORT_SDK_INLINE A apply(A a, A b) {
    using W = typename Wrapping<A>::type;
    return static_cast<A>(static_cast<W>(a) + static_cast<W>(b));
  }
};
template <class A>
struct Product {
  static COHORT_SDK_INLINE A apply(A a, A b) {
    using W = typename Wrapping<A>::type;
    return static_cast<A>(static_cast<W>(a) * static_cast<W>(b));
  }
};
// The lesser operand, or the first NaN.
template <class A>
struct Min {
  static COHORT_SDK_INLINE A apply(A a, A b) { return b < a || (b != b && a == a) ? b : a; }
};
// The greater operand, or the first NaN.
template <class A>
struct Max {
  static COHORT_SDK_INLINE A apply(A a, A b) { return b > a || (b != b && a == a) ? b : a; }
};
template <class A>
struct BitOr {
  static COHORT_SDK_INLINE A apply(A a, A b) { return static_cast<A>(a | b); }
};

// The type that holds elements of T during a reduction, and its conversions.
template <class T>
struct Element {
  using Accumulator = T;
  static COHORT_SDK_INLINE T load(T value) { return value; }
  static COHORT_SDK_INLINE T store(T value) { return value; }
};
template <>
struct Element<Half> {
  using Accumulator = float;
  static COHORT_SDK_INLINE float load(Half value) { return to_float(value); }
  static COHORT_SDK_INLINE Half store(float value) { return to_half(value); }
};
template <>
struct Element<BFloat16> {
  using Accumulator = float;
  static COHORT_SDK_INLINE float load(BFloat16 value) { return to_float(value); }
  static COHORT_SDK_INLINE BFloat16 store(float value) { return to_bfloat16(value); }
};

}  // namespace v1
}  // namespace cohort::sdk
