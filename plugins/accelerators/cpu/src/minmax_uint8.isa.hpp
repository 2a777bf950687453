// Min-max-uint8, as cohort/api/kernels.h defines it. Included once for each instruction set, in namespace COHORT_ISA.
#pragma once

#include <cohort/api/kernels.h>

#include "elements.isa.hpp"

namespace cohort::cpu::COHORT_ISA {

namespace {

constexpr uint64_t kChunkHeader = COHORT_MINMAX_UINT8_HEADER_NBYTES;
constexpr uint32_t kQuietNan = 0x7fc00000u;

/// Finite floats in the order of these integers; those that are not lie beyond kLowestKey and kHighestKey.
COHORT_SDK_INLINE int32_t key_of(float value) {
  const auto bits = static_cast<int32_t>(sdk::bits_of(value));
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
COHORT_SDK_INLINE float value_of(int32_t key) {
  return sdk::float_of(static_cast<uint32_t>(key ^ ((key >> 31) & 0x7fffffff)));
}
constexpr int32_t kHighestKey = 0x7f7fffff, kLowestKey = -0x7f7fffff - 1;

COHORT_SDK_INLINE float to_single(float value) {
  return value;
}
COHORT_SDK_INLINE float to_single(double value) {
  return static_cast<float>(value);
}

/// As roundps does it; where there is none, 2^23 is added and taken away, which a float from 2^23 on does not need.
COHORT_SDK_INLINE float round_to_even(float value) {
#if defined(__SSE4_1__) || !defined(__SSE2__)
  return __builtin_rintf(value);
#else
  const uint32_t bits = sdk::bits_of(value);
  const float large = sdk::float_of((bits & 0x80000000u) | 0x4b000000u);
  return (bits & 0x7fffffffu) < 0x4b000000u ? (value + large) - large : value;
#endif
}

/// What a header says.
struct Grid {
  float scale;
  float lower;
  bool is_nan;

  static Grid of(float min, float max) {
    if (!(min == min)) return {0.0f, 0.0f, true};
    const float low = __builtin_fabsf(min), high = __builtin_fabsf(max);
    const double magnitude = static_cast<double>(low > high ? low : high);
    if (magnitude < 1e-30) return {0.0f, 0.0f, false};
    const double exact = 255.0 / (static_cast<double>(max) - static_cast<double>(min) + 1e-7 * magnitude);
    constexpr double kGreatest = 0x1.fffffep127;
    const float scale = static_cast<float>(exact < kGreatest ? exact : kGreatest);
    return {scale, round_to_even(max * scale) - 255.0f, false};
  }
};

struct Header {
  float min, max;
};

template <class T>
Header header_of(const T* in, uint64_t n, float divisor) {
  if (n == 0) return {0.0f, 0.0f};
  int32_t least = 0x7fffffff, greatest = -0x7fffffff - 1;
  for (uint64_t i = 0; i < n; ++i) {
    const int32_t key = key_of(to_single(load(in[i])));
    least = key < least ? key : least;
    greatest = key > greatest ? key : greatest;
  }
  // A division by something positive keeps the order.
  const float min = value_of(least) / divisor + 0.0f, max = value_of(greatest) / divisor + 0.0f;
  const bool is_finite =
      least >= kLowestKey && greatest <= kHighestKey && key_of(min) >= kLowestKey && key_of(max) <= kHighestKey;
  const float nan = sdk::float_of(kQuietNan);
  return is_finite ? Header{min, max} : Header{nan, nan};
}

template <bool kDivides, class T>
void write_codes(uint8_t* codes, const T* in, uint64_t n, float divisor, Grid grid) {
  for (uint64_t i = 0; i < n; ++i) {
    float value = to_single(load(in[i]));
    if constexpr (kDivides) value /= divisor;
    float code = round_to_even(value * grid.scale) - grid.lower;
    code = code > 0.0f ? code : 0.0f;
    code = code < 255.0f ? code : 255.0f;
    codes[i] = static_cast<uint8_t>(static_cast<int32_t>(code));
  }
}

cohort_status encode_minmax_uint8(void* chunk, const void* in, int32_t dtype, uint64_t n, double divisor,
                                  const cohort_stream*) noexcept {
  const float by = static_cast<float>(divisor);
  if (!(by > 0.0f)) return COHORT_INVALID_ARGUMENT;
  return status_of(for_floating(dtype, [=](auto tag) {
    const auto* from = static_cast<const typename decltype(tag)::Type*>(in);
    const Header header = header_of(from, n, by);
    __builtin_memcpy(chunk, &header, kChunkHeader);
    const Grid grid = Grid::of(header.min, header.max);
    auto* codes = static_cast<uint8_t*>(chunk) + kChunkHeader;
    if (grid.scale == 0.0f) {
      __builtin_memset(codes, 0, n);
    } else if (by == 1.0f) {
      write_codes<false>(codes, from, n, by, grid);
    } else {
      write_codes<true>(codes, from, n, by, grid);
    }
  }));
}

/// Calls `write(i, element)` for elements first .. first + n - 1 of a chunk.
template <class Write>
COHORT_SDK_INLINE void for_elements(const void* chunk, uint64_t first, uint64_t n, Write write) {
  Header header;
  __builtin_memcpy(&header, chunk, kChunkHeader);
  const uint8_t* codes = static_cast<const uint8_t*>(chunk) + kChunkHeader + first;
  const Grid grid = Grid::of(header.min, header.max);
  if (grid.scale == 0.0f) {
    const float all = grid.is_nan ? sdk::float_of(kQuietNan) : 0.0f;
    for (uint64_t i = 0; i < n; ++i) write(i, all);
    return;
  }
  COHORT_SDK_INDEPENDENT
  for (uint64_t i = 0; i < n; ++i) {
    write(i, (static_cast<float>(static_cast<int32_t>(codes[i])) + grid.lower) / grid.scale);
  }
}

cohort_status decode_minmax_uint8(void* out, int32_t dtype, const void* chunk, uint64_t first, uint64_t n,
                                  const cohort_stream*) noexcept {
  return status_of(for_floating(dtype, [=](auto tag) {
    using T = typename decltype(tag)::Type;
    T* to = static_cast<T*>(out);
    for_elements(chunk, first, n, [to](uint64_t i, float value) { to[i] = Store<T>::from(value); });
  }));
}

cohort_status decode_add_minmax_uint8(void* out, int32_t dtype, const void* chunk, uint64_t first, uint64_t n,
                                      const cohort_stream*) noexcept {
  return status_of(for_floating(dtype, [=](auto tag) {
    using T = typename decltype(tag)::Type;
    using A = typename Math<T>::Type;
    T* to = static_cast<T*>(out);
    for_elements(chunk, first, n,
                 [to](uint64_t i, float value) { to[i] = Store<T>::from(load(to[i]) + static_cast<A>(value)); });
  }));
}

}  // namespace

}  // namespace cohort::cpu::COHORT_ISA
