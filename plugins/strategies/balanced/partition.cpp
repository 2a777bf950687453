#include "partition.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace cohort::balanced {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

struct Best {
  uint64_t value;
  Cut cut;
};

/// Returns the cut with the least value, the first one of several. `cost` gives that of a part from a unit to before
/// another one, or kNever; `join` puts the costs of parts together, and never gives less than either.
template <class Cost, class Join>
std::optional<Best> best_cut(const Chain& chain, std::size_t num_parts, Cost&& cost, Join&& join) {
  const std::size_t size = chain.size();
  // By part: the least value of a cut of the units before `end` into the parts up to this one, and where it begins.
  std::vector<uint64_t> before(size + 1, kNever), least(size + 1);
  std::vector<std::vector<uint32_t>> begins(num_parts, std::vector<uint32_t>(size + 1));
  before[0] = 0;
  for (std::size_t part = 0; part < num_parts; ++part) {
    std::fill(least.begin(), least.end(), kNever);
    for (std::size_t first = 0; first < size; ++first) {
      if (before[first] == kNever || !chain.can_begin(first)) continue;
      for (std::size_t end = first + 1; end <= size; ++end) {
        const uint64_t own = cost(part, first, end);
        const uint64_t value = own == kNever ? kNever : join(before[first], own);
        if (value >= least[end]) continue;
        least[end] = value;
        begins[part][end] = static_cast<uint32_t>(first);
      }
    }
    before.swap(least);
  }
  if (num_parts == 0 || before[size] == kNever) return std::nullopt;
  Best best{before[size], Cut(num_parts)};
  std::size_t end = size;
  for (std::size_t part = num_parts; part-- > 0;) end = best.cut[part] = begins[part][end];
  return best;
}

uint64_t larger(uint64_t a, uint64_t b) {
  return std::max(a, b);
}

}  // namespace

std::optional<Cut> fastest_cut(const Chain& chain, const std::vector<Room>& rooms) {
  const auto time = [&](std::size_t part, std::size_t first, std::size_t end) {
    return chain.fits(first, end, rooms[part]) ? chain.nanoseconds(first, end) : kNever;
  };
  const auto fastest = best_cut(chain, rooms.size(), time, larger);
  if (!fastest) return std::nullopt;
  const auto traffic = [&](std::size_t part, std::size_t first, std::size_t end) {
    return time(part, first, end) <= fastest->value ? chain.crossing(first) : kNever;
  };
  return best_cut(chain, rooms.size(), traffic, std::plus<>())->cut;
}

std::optional<uint64_t> smallest_limit(const Chain& chain, const std::vector<Room>& rooms) {
  const auto bytes = [&](std::size_t part, std::size_t first, std::size_t end) {
    return chain.bytes(first, end, rooms[part]);
  };
  const auto smallest = best_cut(chain, rooms.size(), bytes, larger);
  return smallest ? std::optional(smallest->value) : std::nullopt;
}

}  // namespace cohort::balanced
