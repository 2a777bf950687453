// Reduction of arrays, element by element, left to right, for code that can read the data of several ranks.
//
// 16-bit floating types are computed in float32 and rounded once; a mean is the sum divided by the number of sources.
// The output may be one of the sources. Threads: any.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <cohort/api/collective.h>
#include <cohort/sdk/reduce_ops.hpp>
#include <cohort/sdk/span.hpp>

namespace cohort::sdk {
inline namespace v1 {

namespace detail {

constexpr std::uint64_t kReduceTile = 1024;  // elements: a tile stays in the first-level cache

struct Reduction {
  Span<const std::byte* const> sources;
  std::byte* output;
  std::uint64_t count;
};

template <class T, template <class> class Op>
void reduce(const Reduction& r, bool is_mean = false) {
  using E = Element<T>;
  using A = typename E::Accumulator;
  const auto source = [&](std::size_t rank) { return reinterpret_cast<const T*>(r.sources[rank]); };
  std::array<A, kReduceTile> tile;
  for (std::uint64_t begin = 0; begin < r.count; begin += kReduceTile) {
    const std::uint64_t n = std::min(kReduceTile, r.count - begin);
    for (std::uint64_t i = 0; i < n; ++i) tile[i] = E::load(source(0)[begin + i]);
    for (std::size_t rank = 1; rank < r.sources.size(); ++rank) {
      const T* const next = source(rank) + begin;
      for (std::uint64_t i = 0; i < n; ++i) tile[i] = Op<A>::apply(tile[i], E::load(next[i]));
    }
    if (is_mean) {
      const auto divisor = static_cast<A>(r.sources.size());
      for (std::uint64_t i = 0; i < n; ++i) tile[i] = static_cast<A>(tile[i] / divisor);
    }
    T* const out = reinterpret_cast<T*>(r.output) + begin;
    for (std::uint64_t i = 0; i < n; ++i) out[i] = E::store(tile[i]);
  }
}

template <class T>
void reduce_number(std::int32_t op, const Reduction& r) {
  switch (op) {
    case COHORT_REDUCE_MIN:
      return reduce<T, Min>(r);
    case COHORT_REDUCE_MAX:
      return reduce<T, Max>(r);
    case COHORT_REDUCE_PRODUCT:
      return reduce<T, Product>(r);
    default:
      return reduce<T, Sum>(r, op == COHORT_REDUCE_MEAN);
  }
}

template <class T>
void reduce_integer(std::int32_t op, const Reduction& r) {
  if (op == COHORT_REDUCE_BIT_OR) return reduce<T, BitOr>(r);
  reduce_number<T>(op, r);
}

}  // namespace detail

/// Computes output[i] = sources[0][i] op sources[1][i] op ... for i < count. can_reduce(dtype, op) must be true.
inline void reduce_elements(std::int32_t dtype, std::int32_t op, Span<const std::byte* const> sources,
                            std::byte* output, std::uint64_t count) {
  const detail::Reduction r{sources, output, count};
  switch (dtype) {
    case COHORT_FLOAT32:
      return detail::reduce_number<float>(op, r);
    case COHORT_FLOAT64:
      return detail::reduce_number<double>(op, r);
    case COHORT_FLOAT16:
      return detail::reduce_number<Half>(op, r);
    case COHORT_BFLOAT16:
      return detail::reduce_number<BFloat16>(op, r);
    case COHORT_INT8:
      return detail::reduce_integer<std::int8_t>(op, r);
    case COHORT_INT16:
      return detail::reduce_integer<std::int16_t>(op, r);
    case COHORT_INT32:
      return detail::reduce_integer<std::int32_t>(op, r);
    case COHORT_INT64:
      return detail::reduce_integer<std::int64_t>(op, r);
    case COHORT_UINT64:
      return detail::reduce_integer<std::uint64_t>(op, r);
    default:  // uint8; bool, which has min, max and bit-or
      return detail::reduce_integer<std::uint8_t>(op, r);
  }
}

}  // namespace v1
}  // namespace cohort::sdk
