// The best cut of a chain of units into parts, one for each room in their order. Exact, and the same on all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "chain.hpp"

namespace cohort::balanced {

/// Returns the cut with the fastest slowest part; of several, that with the fewest bytes over its borders. Returns
/// nothing if no cut into parts of one unit or more fits into the rooms.
std::optional<Cut> fastest_cut(const Chain& chain, const std::vector<Room>& rooms);

/// Returns the smallest limit, the same in all rooms, into which a cut fits; nothing if there is no cut at all.
std::optional<uint64_t> smallest_limit(const Chain& chain, const std::vector<Room>& rooms);

}  // namespace cohort::balanced
