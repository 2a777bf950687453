#include "communicator/reduce_elements.hpp"

#include <algorithm>
#include <array>

#include <cohort/api/collective.h>
#include <cohort/sdk/reduce_ops.hpp>

namespace cohort::host {
namespace {

constexpr uint64_t kTile = 1024;  // elements: stay in the first-level cache

struct Reduction {
  std::span<const std::byte* const> sources;
  std::byte* output;
  uint64_t count;
};

template <class T, template <class> class Op>
void reduce(const Reduction& r, bool is_mean = false) {
  using E = sdk::Element<T>;
  using A = typename E::Accumulator;
  const auto source = [&](size_t rank) { return reinterpret_cast<const T*>(r.sources[rank]); };
  std::array<A, kTile> tile;
  for (uint64_t begin = 0; begin < r.count; begin += kTile) {
    const uint64_t n = std::min(kTile, r.count - begin);
    for (uint64_t i = 0; i < n; ++i) tile[i] = E::load(source(0)[begin + i]);
    for (size_t rank = 1; rank < r.sources.size(); ++rank) {
      const T* const next = source(rank) + begin;
      for (uint64_t i = 0; i < n; ++i) tile[i] = Op<A>::apply(tile[i], E::load(next[i]));
    }
    if (is_mean) {
      const auto divisor = static_cast<A>(r.sources.size());
      for (uint64_t i = 0; i < n; ++i) tile[i] = static_cast<A>(tile[i] / divisor);
    }
    T* const out = reinterpret_cast<T*>(r.output) + begin;
    for (uint64_t i = 0; i < n; ++i) out[i] = E::store(tile[i]);
  }
}

template <class T>
void reduce_number(int32_t op, const Reduction& r) {
  switch (op) {
    case COHORT_REDUCE_MIN:
      return reduce<T, sdk::Min>(r);
    case COHORT_REDUCE_MAX:
      return reduce<T, sdk::Max>(r);
    case COHORT_REDUCE_PRODUCT:
      return reduce<T, sdk::Product>(r);
    default:
      return reduce<T, sdk::Sum>(r, op == COHORT_REDUCE_MEAN);
  }
}

template <class T>
void reduce_integer(int32_t op, const Reduction& r) {
  if (op == COHORT_REDUCE_BIT_OR) return reduce<T, sdk::BitOr>(r);
  reduce_number<T>(op, r);
}

}  // namespace

void reduce_elements(int32_t dtype, int32_t op, std::span<const std::byte* const> sources, std::byte* output,
                     uint64_t count) {
  const Reduction r{sources, output, count};
  switch (dtype) {
    case COHORT_FLOAT32:
      return reduce_number<float>(op, r);
    case COHORT_FLOAT64:
      return reduce_number<double>(op, r);
    case COHORT_FLOAT16:
      return reduce_number<sdk::Half>(op, r);
    case COHORT_BFLOAT16:
      return reduce_number<sdk::BFloat16>(op, r);
    case COHORT_INT8:
      return reduce_integer<int8_t>(op, r);
    case COHORT_INT16:
      return reduce_integer<int16_t>(op, r);
    case COHORT_INT32:
      return reduce_integer<int32_t>(op, r);
    case COHORT_INT64:
      return reduce_integer<int64_t>(op, r);
    case COHORT_UINT64:
      return reduce_integer<uint64_t>(op, r);
    default:  // uint8; bool, of which there is min, max and bit-or
      return reduce_integer<uint8_t>(op, r);
  }
}

}  // namespace cohort::host
