// How ranks compare each option before they train.
#pragma once

#include <span>
#include <string_view>

#include <cohort/host/options.hpp>

namespace cohort::host {

enum class Across {
  kSame,    ///< has to be equal on all ranks
  kGiven,   ///< given on all ranks or on none; the values may differ
  kAsUsed,  ///< what follows from it is compared elsewhere
  kOwn,     ///< each rank's own
};

struct FlagAcross {
  std::string_view name;
  Across across;
  const char* why;
};

/// One for each flag of every program. Programs' own options are each rank's own: what they do to the model, its
/// optimizers and the loop is compared.
std::span<const FlagAcross> flags_across_ranks();

}  // namespace cohort::host
