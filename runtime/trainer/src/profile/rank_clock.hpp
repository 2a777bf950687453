// How the clocks of ranks differ: those of one machine do not.
//
// No rank leaves a barrier before the last one has come. So what a rank reads when it leaves is later than what another
// one read when it came: each barrier bounds the difference of their clocks from both sides, by the time that it took.
// The narrowest bounds of several count. Clocks drift apart by some microseconds in a second at most, so this is right
// for the steps that follow soon.
#pragma once

#include <array>
#include <cstdint>

#include <cohort/runtime.hpp>

#include "profile/event_log.hpp"

namespace cohort {

/// When a rank came to each of several barriers, and when it left, by its own clock.
using BarrierTimes = std::array<Stretch, 16>;

/// The number to add to a time of rank 0's clock to have that of another rank's, and how wrong it may be.
struct ClockOffset {
  int64_t ns = 0;
  int64_t error_ns = 0;
};

/// Returns the middle of what is possible; 0 if that is possible: then the ranks have one clock.
ClockOffset clock_offset(const BarrierTimes& first, const BarrierTimes& own);

struct RankClock {
  ClockOffset offset;   ///< of this rank
  int64_t zero_ns = 0;  ///< one moment, by this rank's clock; the same moment on all ranks
};

/// Collective.
RankClock compare_clocks(Runtime& runtime);

}  // namespace cohort
