// Names that metrics cannot have, because every row says its step and epoch under them.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include <cohort/host/error.hpp>
#include <cohort/logger.hpp>

namespace cohort {

/// Throws UserError if a value of the row is named like the row's step or epoch.
inline void refuse_reserved_names(const MetricsRow& row) {
  constexpr std::array<std::string_view, 2> kReserved{"step", "epoch"};
  for (const auto& [name, value] : row.values) {
    if (std::find(kReserved.begin(), kReserved.end(), name) == kReserved.end()) continue;
    throw UserError("a metric is named '" + name + "', which is where loggers write the " + name +
                    " of each row; give it another name");
  }
}

}  // namespace cohort
