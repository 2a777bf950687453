// Compiled once for each instruction set, in namespace COHORT_ISA. Everything here must be internal or inlined: a
// function of the standard library that the linker shared between these objects could end up with instructions the
// processor lacks.
#include <cohort/api/collective.h>
#include <cohort/sdk/reduce_ops.hpp>

#include "reduce.hpp"

namespace cohort::shm::COHORT_ISA {

namespace {

using sdk::BitOr;
using sdk::Element;
using sdk::Max;
using sdk::Min;
using sdk::Product;
using sdk::Sum;

constexpr uint64_t kTileBytes = 16 << 10;      // of accumulators: stays in the first-level cache with one source
constexpr uint64_t kFusedTileBytes = 4 << 10;  // stays there with the sources

constexpr auto kUnchanged = [](auto value) __attribute__((always_inline)) {
  return value;
};

/// `count` elements from `begin`: reads each of all sources, then writes it to all sinks, which may be sources. `last`
/// is applied to results.
template <class T, template <class> class Op, std::size_t kSources, std::size_t kSinks, class Last>
void reduce_fused(const Reduction& r, uint64_t begin, uint64_t count, Last last) {
  using E = Element<T>;
  using A = typename E::Accumulator;
  const T* in[kSources];
  T* out[kSinks];
  for (std::size_t k = 0; k < kSources; ++k) in[k] = reinterpret_cast<const T*>(r.sources[k]) + begin;
  for (std::size_t k = 0; k < kSinks; ++k) out[k] = reinterpret_cast<T*>(r.sinks[k]) + begin;
  COHORT_SDK_INDEPENDENT
  for (uint64_t i = 0; i < count; ++i) {
    A value = E::load(in[0][i]);
#pragma GCC unroll 4
    for (std::size_t k = 1; k < kSources; ++k) value = Op<A>::apply(value, E::load(in[k][i]));
    const T result = E::store(last(value));
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kSinks; ++k) out[k][i] = result;
  }
}

/// Few sources.
template <class T, template <class> class Op, std::size_t kSources, class Last>
void reduce_few(const Reduction& r, Last last) {
  if (r.num_sinks == static_cast<int>(kSources)) return reduce_fused<T, Op, kSources, kSources>(r, 0, r.count, last);
  // Tiles that stay in the cache while they go on to further sinks.
  const uint64_t tile = r.num_sinks > 1 ? kFusedTileBytes / sizeof(T) : r.count;
  for (uint64_t begin = 0; begin < r.count; begin += tile) {
    const uint64_t n = r.count - begin < tile ? r.count - begin : tile;
    reduce_fused<T, Op, kSources, 1>(r, begin, n, last);
    const T* result = reinterpret_cast<const T*>(r.sinks[0]) + begin;
    for (int sink = 1; sink < r.num_sinks; ++sink) {
      __builtin_memcpy(reinterpret_cast<T*>(r.sinks[sink]) + begin, result, n * sizeof(T));
    }
  }
}

/// Any number of sources, tile by tile.
template <class T, template <class> class Op, class Last>
void reduce_many(const Reduction& r, Last last) {
  using E = Element<T>;
  using A = typename E::Accumulator;
  constexpr uint64_t kTile = kTileBytes / sizeof(A);
  alignas(64) A tile[kTile];
  alignas(64) T result[kTile];
  for (uint64_t begin = 0; begin < r.count; begin += kTile) {
    const uint64_t n = r.count - begin < kTile ? r.count - begin : kTile;
    const T* first = reinterpret_cast<const T*>(r.sources[0]) + begin;
    for (uint64_t i = 0; i < n; ++i) tile[i] = E::load(first[i]);
    for (int source = 1; source < r.num_sources; ++source) {
      const T* next = reinterpret_cast<const T*>(r.sources[source]) + begin;
      for (uint64_t i = 0; i < n; ++i) tile[i] = Op<A>::apply(tile[i], E::load(next[i]));
    }
    for (uint64_t i = 0; i < n; ++i) result[i] = E::store(last(tile[i]));
    for (int sink = 0; sink < r.num_sinks; ++sink) {
      __builtin_memcpy(reinterpret_cast<T*>(r.sinks[sink]) + begin, result, n * sizeof(T));
    }
  }
}

/// Sums are what training waits for: they have a loop for each small number of sources.
template <class T, class Last>
void sum_with(const Reduction& r, Last last) {
  switch (r.num_sources) {
    case 2:
      return reduce_few<T, Sum, 2>(r, last);
    case 3:
      return reduce_few<T, Sum, 3>(r, last);
    case 4:
      return reduce_few<T, Sum, 4>(r, last);
    default:
      return reduce_many<T, Sum>(r, last);
  }
}

template <class T>
void reduce_mean(const Reduction& r) {
  using A = typename Element<T>::Accumulator;
  const auto divisor = static_cast<A>(r.num_sources);
  // For powers of two a factor gives the same bits as the division, faster.
  if ((r.num_sources & (r.num_sources - 1)) == 0) {
    const A factor = static_cast<A>(1) / divisor;
    return sum_with<T>(
        r, [factor](A value) __attribute__((always_inline)) { return value * factor; });
  }
  sum_with<T>(
      r, [divisor](A value) __attribute__((always_inline)) { return value / divisor; });
}

template <class T>
void reduce_number(const Reduction& r) {
  switch (r.op) {
    case COHORT_REDUCE_SUM:
      return sum_with<T>(r, kUnchanged);
    case COHORT_REDUCE_MIN:
      return reduce_many<T, Min>(r, kUnchanged);
    case COHORT_REDUCE_MAX:
      return reduce_many<T, Max>(r, kUnchanged);
    default:
      return reduce_many<T, Product>(r, kUnchanged);
  }
}

template <class T>
void reduce_floating(const Reduction& r) {
  if (r.op == COHORT_REDUCE_MEAN) return reduce_mean<T>(r);
  reduce_number<T>(r);
}

template <class T>
void reduce_integer(const Reduction& r) {
  if (r.op == COHORT_REDUCE_BIT_OR) return reduce_many<T, BitOr>(r, kUnchanged);
  reduce_number<T>(r);
}

}  // namespace

void reduce(const Reduction& r) {
  switch (r.dtype) {
    case COHORT_FLOAT32:
      return reduce_floating<float>(r);
    case COHORT_FLOAT64:
      return reduce_floating<double>(r);
    case COHORT_FLOAT16:
      return reduce_floating<sdk::Half>(r);
    case COHORT_BFLOAT16:
      return reduce_floating<sdk::BFloat16>(r);
    case COHORT_INT8:
      return reduce_integer<int8_t>(r);
    case COHORT_INT16:
      return reduce_integer<int16_t>(r);
    case COHORT_INT32:
      return reduce_integer<int32_t>(r);
    case COHORT_INT64:
      return reduce_integer<int64_t>(r);
    case COHORT_UINT64:
      return reduce_integer<uint64_t>(r);
    default:  // uint8; bool, of which there is min, max and bit-or
      return reduce_integer<uint8_t>(r);
  }
}

}  // namespace cohort::shm::COHORT_ISA
