// Conversions between float and the 16-bit floating types: exact to float, rounded to nearest even from float.
//
// They have no branches, so that loops over them vectorise. They are always inlined, so that no file uses a copy
// compiled for another instruction set. Signalling NaNs become quiet; a NaN's payload is truncated.
#pragma once

#include <cstdint>
#include <cstring>

#include <cohort/sdk/compiler.hpp>
#include <cohort/sdk/dtype.hpp>

namespace cohort::sdk {
inline namespace v1 {

COHORT_SDK_INLINE std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

COHORT_SDK_INLINE float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

COHORT_SDK_INLINE float to_float(BFloat16 value) {
  const std::uint32_t bits = std::uint32_t{value.bits} << 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return float_of(bits | (is_nan ? 0x400000u : 0u));
}

COHORT_SDK_INLINE BFloat16 to_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (bits >> 16) | 0x40u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<std::uint16_t>(is_nan ? nan : rounded)};
}

COHORT_SDK_INLINE float to_float(Half value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  const bool is_special = magnitude >= 0x7c00u;
  // A normal number needs its exponent moved. A subnormal one is a float with the mantissa in its low bits, minus its
  // hidden one.
  const std::uint32_t normal = (magnitude << 13) + (is_special ? 0x70000000u : 0x38000000u);
  const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
  const float subnormal = float_of((magnitude & 0x3ffu) | 0x4b000000u) - 8388608.0f;
  const std::uint32_t small = bits_of(subnormal * 5.9604644775390625e-8f);
  return float_of(sign | (magnitude < 0x400u ? small : normal | quiet));
}

COHORT_SDK_INLINE Half to_half(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + odd) >> 13;
  // Below 2^-14, adding 0.5 makes the float adder round at half's last bit.
  const std::uint32_t subnormal = bits_of(float_of(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f) - 0x3f000000u;
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? nan : result;
  return {static_cast<std::uint16_t>(sign | result)};
}

/// Rounds to float so that a second rounding, to a 16-bit type, gives the same as one rounding of `value`. If `value`
/// is not a float, the result is its neighbour towards zero with the last bit set.
COHORT_SDK_INLINE float to_float_for_narrowing(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  const std::uint32_t bits = bits_of(nearest);
  const bool is_inexact = back != value && value == value;
  const bool is_too_large = value < 0 ? back < value : back > value;
  return float_of(is_inexact ? (is_too_large ? bits - 1u : bits) | 1u : bits);
}

}  // namespace v1
}  // namespace cohort::sdk
