#include "profile/rank_clock.hpp"

#include <algorithm>
#include <limits>
#include <span>

namespace cohort {

ClockOffset clock_offset(const BarrierTimes& first, const BarrierTimes& own) {
  int64_t least = std::numeric_limits<int64_t>::min();
  int64_t most = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < own.size(); ++i) {
    least = std::max(least, own[i].begun_ns - first[i].ended_ns);
    most = std::min(most, own[i].ended_ns - first[i].begun_ns);
  }
  const int64_t error = std::max<int64_t>((most - least) / 2, 0);
  if (least <= 0 && most >= 0) return {0, error};
  return {least + (most - least) / 2, error};
}

RankClock compare_clocks(Runtime& runtime) {
  BarrierTimes own{};
  for (Stretch& barrier : own) {
    barrier.begun_ns = clock_ns();
    runtime.barrier();
    barrier.ended_ns = clock_ns();
  }
  BarrierTimes first = own;
  runtime.broadcast(std::as_writable_bytes(std::span(first)), 0);
  const ClockOffset offset = clock_offset(first, own);
  return {offset, first.back().ended_ns + offset.ns};
}

}  // namespace cohort
