// How ranks compare each common flag before they train.
#pragma once

#include <span>
#include <string_view>

#include <cohort/host/options.hpp>

namespace cohort::host {

enum class Across {
  kSame,    ///< has to be equal on all ranks
  kGiven,   ///< given on all ranks or on none; the values may differ
  kAsUsed,  ///< its effect is compared elsewhere
  kOwn,     ///< not compared: each rank has its own value
};

struct FlagAcross {
  std::string_view name;
  Across across;
  const char* why;
};

/// Returns a row for each common flag. A program's own options have no row and are not compared; their effects on the
/// model, its optimizers and the loop are.
std::span<const FlagAcross> flags_across_ranks();

}  // namespace cohort::host
