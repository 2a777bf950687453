// The cut that the user names: cut=blocks.4+blocks.8.
#pragma once

#include <cstddef>
#include <string_view>

#include "chain.hpp"

namespace cohort::balanced {

/// Returns the cut at the modules of these names, joined by '+', in any order. A name means the unit of this name, or
/// the first one under it. Throws INVALID_ARGUMENT unless they make this number of parts.
Cut named_cut(const Chain& chain, std::string_view names, std::size_t num_parts);

}  // namespace cohort::balanced
