// Compiled once for each instruction set, in namespace COHORT_ISA. Everything here must be internal or inlined: a
// function that the linker shared between these objects could end up with instructions the processor lacks.
#include <cohort/api/collective.h>
#include <cohort/sdk/reduce_ops.hpp>

#include "sum.hpp"

namespace cohort::mpi::COHORT_ISA {

namespace {

constexpr std::uint64_t kTile = 2048;  // elements: their sums stay in the first-level cache

template <class T, class Last>
void sum(const Sources& s, Last last) {
  using E = sdk::Element<T>;
  using A = typename E::Accumulator;
  const auto source = [&](std::size_t rank) { return reinterpret_cast<const T*>(s.data[rank]); };
  T* const output = reinterpret_cast<T*>(s.output);
  if (s.ranks == 2) {
    const T* const a = source(0);
    const T* const b = source(1);
    COHORT_SDK_INDEPENDENT
    for (std::uint64_t i = 0; i < s.count; ++i) {
      output[i] = E::store(last(sdk::Sum<A>::apply(E::load(a[i]), E::load(b[i]))));
    }
    return;
  }
  A tile[kTile];
  for (std::uint64_t begin = 0; begin < s.count; begin += kTile) {
    const std::uint64_t n = s.count - begin < kTile ? s.count - begin : kTile;
    const T* const first = source(0) + begin;
    for (std::uint64_t i = 0; i < n; ++i) tile[i] = E::load(first[i]);
    for (std::size_t rank = 1; rank < s.ranks; ++rank) {
      const T* const next = source(rank) + begin;
      for (std::uint64_t i = 0; i < n; ++i) tile[i] = sdk::Sum<A>::apply(tile[i], E::load(next[i]));
    }
    for (std::uint64_t i = 0; i < n; ++i) output[begin + i] = E::store(last(tile[i]));
  }
}

template <class T>
void sum_or_mean(const Sources& s, bool is_mean) {
  using A = typename sdk::Element<T>::Accumulator;
  const A divisor = static_cast<A>(s.ranks);
  if (is_mean) return sum<T>(s, [divisor](A value) { return value / divisor; });
  sum<T>(s, [](A value) { return value; });
}

}  // namespace

void sum(std::int32_t dtype, bool is_mean, const Sources& sources) {
  switch (dtype) {
    case COHORT_FLOAT32:
      return sum_or_mean<float>(sources, is_mean);
    case COHORT_FLOAT64:
      return sum_or_mean<double>(sources, is_mean);
    case COHORT_FLOAT16:
      return sum_or_mean<sdk::Half>(sources, is_mean);
    default:
      return sum_or_mean<sdk::BFloat16>(sources, is_mean);
  }
}

}  // namespace cohort::mpi::COHORT_ISA
