// Data types: their sizes and names, and the C++ types of their elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cohort/api/collective.h>
#include <cohort/api/tensor.h>

namespace cohort::sdk {
inline namespace v1 {

/// An element of a float16 tensor, as bits; half.hpp converts it.
struct Half {
  std::uint16_t bits;
};
/// An element of a bfloat16 tensor, as bits; half.hpp converts it.
struct BFloat16 {
  std::uint16_t bits;
};

/// Returns the bytes of one element; 0 for a data type unknown to these headers.
constexpr std::size_t size_of(std::int32_t dtype) {
  switch (dtype) {
    case COHORT_FLOAT64:
    case COHORT_INT64:
    case COHORT_UINT64:
      return 8;
    case COHORT_FLOAT32:
    case COHORT_INT32:
      return 4;
    case COHORT_FLOAT16:
    case COHORT_BFLOAT16:
    case COHORT_INT16:
      return 2;
    case COHORT_INT8:
    case COHORT_UINT8:
    case COHORT_BOOL:
      return 1;
    default:
      return 0;
  }
}

constexpr const char* name_of(std::int32_t dtype) {
  constexpr const char* kNames[] = {"unknown", "float32", "float64", "float16", "bfloat16", "int8",
                                    "int16",   "int32",   "int64",   "uint8",   "uint64",   "bool"};
  return dtype >= COHORT_FLOAT32 && dtype <= COHORT_BOOL ? kNames[dtype] : kNames[0];
}

/// Returns "sum" for COHORT_REDUCE_SUM and so on.
constexpr const char* name_of_reduce(std::int32_t reduce) {
  constexpr const char* kNames[] = {"unknown", "sum", "mean", "min", "max", "product", "bit-or"};
  return reduce >= COHORT_REDUCE_SUM && reduce <= COHORT_REDUCE_BIT_OR ? kNames[reduce] : kNames[0];
}

constexpr bool is_floating(std::int32_t dtype) {
  return dtype >= COHORT_FLOAT32 && dtype <= COHORT_BFLOAT16;
}

/// Returns whether elements of `dtype` have the reduce operation `reduce` (COHORT_REDUCE_...).
constexpr bool can_reduce(std::int32_t dtype, std::int32_t reduce) {
  switch (reduce) {
    case COHORT_REDUCE_SUM:
    case COHORT_REDUCE_PRODUCT:
      return size_of(dtype) != 0 && dtype != COHORT_BOOL;
    case COHORT_REDUCE_MEAN:
      return is_floating(dtype);
    case COHORT_REDUCE_BIT_OR:
      return size_of(dtype) != 0 && !is_floating(dtype);
    default:
      return size_of(dtype) != 0 && (reduce == COHORT_REDUCE_MIN || reduce == COHORT_REDUCE_MAX);
  }
}

/// Returns the status of a function that refuses elements of `dtype`: UNIMPLEMENTED for a type unknown to these
/// headers, so that the caller may use another way; INVALID_ARGUMENT for a known type.
constexpr cohort_status refusal_of(std::int32_t dtype) {
  return size_of(dtype) == 0 ? COHORT_UNIMPLEMENTED : COHORT_INVALID_ARGUMENT;
}
/// Returns refusal_of(dtype); UNIMPLEMENTED for a reduce operation unknown to these headers.
constexpr cohort_status refusal_of(std::int32_t dtype, std::int32_t reduce) {
  const bool is_known = reduce >= COHORT_REDUCE_SUM && reduce <= COHORT_REDUCE_BIT_OR;
  return is_known ? refusal_of(dtype) : COHORT_UNIMPLEMENTED;
}

/// The data type with elements of type `T`: `kDtypeOf<float>` is COHORT_FLOAT32. 0 if there is none.
template <class T>
inline constexpr std::int32_t kDtypeOf = 0;
template <>
inline constexpr std::int32_t kDtypeOf<float> = COHORT_FLOAT32;
template <>
inline constexpr std::int32_t kDtypeOf<double> = COHORT_FLOAT64;
template <>
inline constexpr std::int32_t kDtypeOf<Half> = COHORT_FLOAT16;
template <>
inline constexpr std::int32_t kDtypeOf<BFloat16> = COHORT_BFLOAT16;
template <>
inline constexpr std::int32_t kDtypeOf<std::int8_t> = COHORT_INT8;
template <>
inline constexpr std::int32_t kDtypeOf<std::int16_t> = COHORT_INT16;
template <>
inline constexpr std::int32_t kDtypeOf<std::int32_t> = COHORT_INT32;
template <>
inline constexpr std::int32_t kDtypeOf<std::int64_t> = COHORT_INT64;
template <>
inline constexpr std::int32_t kDtypeOf<std::uint8_t> = COHORT_UINT8;
template <>
inline constexpr std::int32_t kDtypeOf<std::uint64_t> = COHORT_UINT64;
template <>
inline constexpr std::int32_t kDtypeOf<bool> = COHORT_BOOL;

}  // namespace v1
}  // namespace cohort::sdk
