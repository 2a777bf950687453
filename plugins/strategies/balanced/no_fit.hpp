// The message for a model that does not fit into its devices.
#pragma once

#include <string>
#include <vector>

#include "chain.hpp"

namespace cohort::balanced {

/// Returns the largest number of bytes that a part of the cut needs.
uint64_t needed_bytes(const Chain& chain, const std::vector<Room>& rooms, const Cut& cut);

/// Returns the sentence about a cut that the user has named, with what each of its parts needs.
std::string named_cut_does_not_fit(const Chain& chain, const std::vector<Room>& rooms, const Cut& cut);

/// Returns the sentence about a chain without a cut that fits, with the smallest limit that one fits into. At least as
/// many units as there are rooms can begin a part.
std::string no_cut_fits(const Chain& chain, const std::vector<Room>& rooms);

}  // namespace cohort::balanced
