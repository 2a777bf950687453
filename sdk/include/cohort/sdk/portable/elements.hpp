// Loads, arithmetic types and stores of floating elements for portable kernels. Everything is inlined.
#pragma once

#include <cohort/api/status.h>
#include <cohort/sdk/dtype.hpp>
#include <cohort/sdk/half.hpp>

namespace cohort::sdk {
inline namespace v1 {
namespace portable {

// The type for arithmetic on T.
template <class T>
struct Math {
  using Type = T;
};
template <>
struct Math<Half> {
  using Type = float;
};
template <>
struct Math<BFloat16> {
  using Type = float;
};

COHORT_SDK_INLINE float load(float value) {
  return value;
}
COHORT_SDK_INLINE double load(double value) {
  return value;
}
COHORT_SDK_INLINE float load(Half value) {
  return to_float(value);
}
COHORT_SDK_INLINE float load(BFloat16 value) {
  return to_float(value);
}

// The conversion from float or double to T, rounded once.
template <class T>
struct Store;
template <>
struct Store<float> {
  static COHORT_SDK_INLINE float from(float value) { return value; }
  static COHORT_SDK_INLINE float from(double value) { return static_cast<float>(value); }
};
template <>
struct Store<double> {
  static COHORT_SDK_INLINE double from(float value) { return static_cast<double>(value); }
  static COHORT_SDK_INLINE double from(double value) { return value; }
};
template <>
struct Store<Half> {
  static COHORT_SDK_INLINE Half from(float value) { return to_half(value); }
  static COHORT_SDK_INLINE Half from(double value) { return to_half(to_float_for_narrowing(value)); }
};
template <>
struct Store<BFloat16> {
  static COHORT_SDK_INLINE BFloat16 from(float value) { return to_bfloat16(value); }
  static COHORT_SDK_INLINE BFloat16 from(double value) { return to_bfloat16(to_float_for_narrowing(value)); }
};

template <class T>
struct Tag {
  using Type = T;
};

// Calls `body(Tag<T>{})` with the element type of a floating dtype. Returns refusal_of(dtype) for any other dtype.
template <class Body>
COHORT_SDK_INLINE cohort_status for_floating(int32_t dtype, Body body) {
  switch (dtype) {
    case COHORT_FLOAT32:
      body(Tag<float>{});
      return COHORT_OK;
    case COHORT_FLOAT64:
      body(Tag<double>{});
      return COHORT_OK;
    case COHORT_FLOAT16:
      body(Tag<Half>{});
      return COHORT_OK;
    case COHORT_BFLOAT16:
      body(Tag<BFloat16>{});
      return COHORT_OK;
    default:
      return refusal_of(dtype);
  }
}

}  // namespace portable
}  // namespace v1
}  // namespace cohort::sdk
