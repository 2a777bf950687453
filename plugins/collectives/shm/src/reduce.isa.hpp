// Compiled once for each instruction set, in namespace COHORT_ISA. Everything here must be internal or inlined: a
// function of the standard library that the linker shared between these objects could end up with instructions the
// processor lacks.
#include <cohort/api/collective.h>
#include <cohort/sdk/half.hpp>

#include "reduce.hpp"

namespace cohort::shm::COHORT_ISA {

namespace {

constexpr uint64_t kTileBytes = 16 << 10;  // of accumulators: stays in the first-level cache with one source

// Integers wrap around; 16 bits are widened, as their product would be a signed int.
template <class T>
struct Wrapping {
  using type = T;
};
template <>
struct Wrapping<int8_t> {
  using type = uint8_t;
};
template <>
struct Wrapping<int16_t> {
  using type = uint32_t;
};
template <>
struct Wrapping<int32_t> {
  using type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using type = uint64_t;
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
// NaN wins: of several, the first.
template <class A>
struct Min {
  static COHORT_SDK_INLINE A apply(A a, A b) { return b < a || (b != b && a == a) ? b : a; }
};
template <class A>
struct Max {
  static COHORT_SDK_INLINE A apply(A a, A b) { return b > a || (b != b && a == a) ? b : a; }
};
template <class A>
struct BitOr {
  static COHORT_SDK_INLINE A apply(A a, A b) { return static_cast<A>(a | b); }
};

// How elements of T are held while they are reduced.
template <class T>
struct Element {
  using Accumulator = T;
  static COHORT_SDK_INLINE T load(T value) { return value; }
  static COHORT_SDK_INLINE T store(T value) { return value; }
};
template <>
struct Element<sdk::Half> {
  using Accumulator = float;
  static COHORT_SDK_INLINE float load(sdk::Half value) { return sdk::to_float(value); }
  static COHORT_SDK_INLINE sdk::Half store(float value) { return sdk::to_half(value); }
};
template <>
struct Element<sdk::BFloat16> {
  using Accumulator = float;
  static COHORT_SDK_INLINE float load(sdk::BFloat16 value) { return sdk::to_float(value); }
  static COHORT_SDK_INLINE sdk::BFloat16 store(float value) { return sdk::to_bfloat16(value); }
};

template <class A>
void divide(A* tile, uint64_t n, int divisor) {
  const A value = static_cast<A>(divisor);
  if ((divisor & (divisor - 1)) == 0) {  // the same bits, faster
    const A reciprocal = A{1} / value;
    for (uint64_t i = 0; i < n; ++i) tile[i] *= reciprocal;
  } else {
    for (uint64_t i = 0; i < n; ++i) tile[i] /= value;
  }
}

template <class T, template <class> class Op>
void reduce_typed(const Reduction& r, bool is_mean) {
  using E = Element<T>;
  using A = typename E::Accumulator;
  constexpr uint64_t kTile = kTileBytes / sizeof(A);
  alignas(64) A tile[kTile];
  for (uint64_t begin = 0; begin < r.count; begin += kTile) {
    const uint64_t n = r.count - begin < kTile ? r.count - begin : kTile;
    const T* first = reinterpret_cast<const T*>(r.sources[0]) + begin;
    const T* second = reinterpret_cast<const T*>(r.sources[r.num_sources > 1 ? 1 : 0]) + begin;
    if (r.num_sources > 1) {
      for (uint64_t i = 0; i < n; ++i) tile[i] = Op<A>::apply(E::load(first[i]), E::load(second[i]));
    } else {
      for (uint64_t i = 0; i < n; ++i) tile[i] = E::load(first[i]);
    }
    for (int source = 2; source < r.num_sources; ++source) {
      const T* next = reinterpret_cast<const T*>(r.sources[source]) + begin;
      for (uint64_t i = 0; i < n; ++i) tile[i] = Op<A>::apply(tile[i], E::load(next[i]));
    }
    if constexpr (A(0.5) != A(0)) {
      if (is_mean) divide(tile, n, r.num_sources);
    }
    for (int sink = 0; sink < r.num_sinks; ++sink) {
      T* out = reinterpret_cast<T*>(r.sinks[sink]) + begin;
      for (uint64_t i = 0; i < n; ++i) out[i] = E::store(tile[i]);
    }
  }
}

template <class T>
void reduce_number(const Reduction& r) {
  switch (r.op) {
    case COHORT_REDUCE_SUM:
      return reduce_typed<T, Sum>(r, false);
    case COHORT_REDUCE_MEAN:
      return reduce_typed<T, Sum>(r, true);
    case COHORT_REDUCE_MIN:
      return reduce_typed<T, Min>(r, false);
    case COHORT_REDUCE_MAX:
      return reduce_typed<T, Max>(r, false);
    default:
      return reduce_typed<T, Product>(r, false);
  }
}

template <class T>
void reduce_integer(const Reduction& r) {
  if (r.op == COHORT_REDUCE_BIT_OR) return reduce_typed<T, BitOr>(r, false);
  return reduce_number<T>(r);
}

}  // namespace

void reduce(const Reduction& r) {
  switch (r.dtype) {
    case COHORT_FLOAT32:
      return reduce_number<float>(r);
    case COHORT_FLOAT64:
      return reduce_number<double>(r);
    case COHORT_FLOAT16:
      return reduce_number<sdk::Half>(r);
    case COHORT_BFLOAT16:
      return reduce_number<sdk::BFloat16>(r);
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
