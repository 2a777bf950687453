// The table cohort.kernels.minmax_uint8/1 for CPU memory, in portable C++; see core_kernels.hpp.
#pragma once

#include <cohort/api/kernels.h>
#include <cohort/sdk/portable/minmax_uint8_chunk.hpp>

namespace cohort::sdk {
inline namespace v1 {
namespace portable {

template <class Isa>
struct MinmaxUint8Kernels {
  using Chunk = MinmaxUint8Chunk<Isa>;
  static constexpr uint64_t kTile = 2048;  // elements: the sums stay in the first-level cache

  static cohort_status encode(cohort_accelerator*, void* chunks, const void* in, int32_t dtype, uint64_t chunk_numel,
                              uint64_t num_chunks, double divisor, const cohort_stream*) noexcept {
    const float by = static_cast<float>(divisor);
    if (!(by > 0.0f)) return COHORT_INVALID_ARGUMENT;
    return for_floating(dtype, [=](auto tag) {
      const auto* from = static_cast<const typename decltype(tag)::Type*>(in);
      auto* chunk = static_cast<uint8_t*>(chunks);
      for (uint64_t c = 0; c < num_chunks; ++c) {
        Chunk::encode(chunk, from, chunk_numel, by);
        chunk += COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
        from += chunk_numel;
      }
    });
  }

  static cohort_status decode(cohort_accelerator*, void* out, int32_t dtype, const void* chunks, uint64_t chunk_numel,
                              uint64_t num_chunks, const cohort_stream*) noexcept {
    return for_floating(dtype, [=](auto tag) {
      using T = typename decltype(tag)::Type;
      T* to = static_cast<T*>(out);
      const auto* chunk = static_cast<const uint8_t*>(chunks);
      for (uint64_t c = 0; c < num_chunks; ++c) {
        Chunk::for_elements(chunk, 0, chunk_numel, [to](uint64_t i, float value) { to[i] = Store<T>::from(value); });
        chunk += COHORT_MINMAX_UINT8_NBYTES(chunk_numel);
        to += chunk_numel;
      }
    });
  }

  /// Returns the memory for sums: `out` for float32 and float64, `tile` for 16-bit types.
  template <class T, class A>
  static COHORT_SDK_INLINE A* place_of_sum(T* out, A* tile) {
    if constexpr (sizeof(T) == sizeof(A))
      return out;
    else
      return tile;
  }

  /// Adds elements first .. first + n - 1 of `start`, if not null, and of all chunks into `out`.
  template <class T>
  static void add_tile(T* out, const T* start, const uint8_t* chunk, uint64_t chunk_numel, uint64_t num_chunks,
                       uint64_t first, uint64_t n) {
    using A = typename Math<T>::Type;
    constexpr bool kIsInPlace = sizeof(T) == sizeof(A);
    alignas(64) A tile[kIsInPlace ? 1 : kTile];
    A* const sum = place_of_sum(out + first, tile);
    uint64_t c = 0;
    if (!start) {
      Chunk::for_elements(chunk, first, n, [sum](uint64_t i, float value) { sum[i] = static_cast<A>(value); });
      c = 1;
    } else if (!kIsInPlace || start != out) {
      for (uint64_t i = 0; i < n; ++i) sum[i] = load(start[first + i]);
    }
    for (; c < num_chunks; ++c) {
      Chunk::for_elements(chunk + c * COHORT_MINMAX_UINT8_NBYTES(chunk_numel), first, n,
                          [sum](uint64_t i, float value) { sum[i] = sum[i] + static_cast<A>(value); });
    }
    if constexpr (!kIsInPlace) {
      for (uint64_t i = 0; i < n; ++i) out[first + i] = Store<T>::from(sum[i]);
    }
  }

  static cohort_status decode_add(cohort_accelerator*, void* out, const void* start, int32_t dtype, const void* chunks,
                                  uint64_t chunk_numel, uint64_t num_chunks, const cohort_stream*) noexcept {
    if (num_chunks == 0) return COHORT_INVALID_ARGUMENT;
    return for_floating(dtype, [=](auto tag) {
      using T = typename decltype(tag)::Type;
      for (uint64_t first = 0; first < chunk_numel; first += kTile) {
        const uint64_t count = chunk_numel - first < kTile ? chunk_numel - first : kTile;
        add_tile(static_cast<T*>(out), static_cast<const T*>(start), static_cast<const uint8_t*>(chunks), chunk_numel,
                 num_chunks, first, count);
      }
    });
  }

  static constexpr cohort_kernels_minmax_uint8_1 kTable{
      sizeof(cohort_kernels_minmax_uint8_1), 0, nullptr, encode, decode, decode_add};
};

}  // namespace portable
}  // namespace v1
}  // namespace cohort::sdk
