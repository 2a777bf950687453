// One chunk of min-max-uint8, as cohort/api/kernels.h defines it; see core_kernels.hpp for `Isa`.
#pragma once

#include <cohort/api/kernels.h>
#include <cohort/sdk/portable/elements.hpp>

namespace cohort::sdk {
inline namespace v1 {
namespace portable {

template <class Isa>
struct MinmaxUint8Chunk {
  static constexpr uint64_t kChunkHeader = COHORT_MINMAX_UINT8_HEADER_NBYTES;
  static constexpr uint32_t kQuietNan = 0x7fc00000u;

  /// Returns an integer that sorts like `value`. Infinities and NaNs lie outside kLowestKey .. kHighestKey.
  static COHORT_SDK_INLINE int32_t key_of(float value) {
    const auto bits = static_cast<int32_t>(bits_of(value));
    return bits ^ ((bits >> 31) & 0x7fffffff);
  }
  static COHORT_SDK_INLINE float value_of(int32_t key) {
    return float_of(static_cast<uint32_t>(key ^ ((key >> 31) & 0x7fffffff)));
  }
  static constexpr int32_t kHighestKey = 0x7f7fffff, kLowestKey = -0x7f7fffff - 1;

  static COHORT_SDK_INLINE float to_single(float value) { return value; }
  static COHORT_SDK_INLINE float to_single(double value) { return static_cast<float>(value); }

  /// Rounds like roundps. Without roundps, adds and subtracts 2^23; floats from 2^23 on are already whole.
  static COHORT_SDK_INLINE float round_to_even(float value) {
#if defined(__SSE4_1__) || !defined(__SSE2__)
    return __builtin_rintf(value);
#else
    const uint32_t bits = bits_of(value);
    const float large = float_of((bits & 0x80000000u) | 0x4b000000u);
    return (bits & 0x7fffffffu) < 0x4b000000u ? (value + large) - large : value;
#endif
  }

  /// The grid of a chunk's codes, computed from its header.
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
  static Header header_of(const T* in, uint64_t n, float divisor) {
    if (n == 0) return {0.0f, 0.0f};
    int32_t least = 0x7fffffff, greatest = -0x7fffffff - 1;
    for (uint64_t i = 0; i < n; ++i) {
      const int32_t key = key_of(to_single(load(in[i])));
      least = key < least ? key : least;
      greatest = key > greatest ? key : greatest;
    }
    // Division by a positive number keeps the order.
    const float min = value_of(least) / divisor + 0.0f, max = value_of(greatest) / divisor + 0.0f;
    const bool is_finite =
        least >= kLowestKey && greatest <= kHighestKey && key_of(min) >= kLowestKey && key_of(max) <= kHighestKey;
    const float nan = float_of(kQuietNan);
    return is_finite ? Header{min, max} : Header{nan, nan};
  }

  template <bool kDivides, class T>
  static void write_codes(uint8_t* codes, const T* in, uint64_t n, float divisor, Grid grid) {
    for (uint64_t i = 0; i < n; ++i) {
      float value = to_single(load(in[i]));
      if constexpr (kDivides) value /= divisor;
      float code = round_to_even(value * grid.scale) - grid.lower;
      code = code > 0.0f ? code : 0.0f;
      code = code < 255.0f ? code : 255.0f;
      codes[i] = static_cast<uint8_t>(static_cast<int32_t>(code));
    }
  }

  template <class T>
  static void encode(uint8_t* chunk, const T* in, uint64_t n, float divisor) {
    const Header header = header_of(in, n, divisor);
    __builtin_memcpy(chunk, &header, kChunkHeader);
    const Grid grid = Grid::of(header.min, header.max);
    uint8_t* const codes = chunk + kChunkHeader;
    if (grid.scale == 0.0f) {
      __builtin_memset(codes, 0, n);
    } else if (divisor == 1.0f) {
      write_codes<false>(codes, in, n, divisor, grid);
    } else {
      write_codes<true>(codes, in, n, divisor, grid);
    }
  }

  /// Decodes elements first .. first + n - 1 of a chunk: calls `write(i, element)` for element first + i.
  template <class Write>
  static COHORT_SDK_INLINE void for_elements(const uint8_t* chunk, uint64_t first, uint64_t n, Write write) {
    Header header;
    __builtin_memcpy(&header, chunk, kChunkHeader);
    const uint8_t* codes = chunk + kChunkHeader + first;
    const Grid grid = Grid::of(header.min, header.max);
    if (grid.scale == 0.0f) {
      const float all = grid.is_nan ? float_of(kQuietNan) : 0.0f;
      for (uint64_t i = 0; i < n; ++i) write(i, all);
      return;
    }
    COHORT_SDK_INDEPENDENT
    for (uint64_t i = 0; i < n; ++i) {
      write(i, (static_cast<float>(static_cast<int32_t>(codes[i])) + grid.lower) / grid.scale);
    }
  }
};

}  // namespace portable
}  // namespace v1
}  // namespace cohort::sdk
