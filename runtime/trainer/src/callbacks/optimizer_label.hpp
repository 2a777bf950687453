// Names of values that there is one of for each optimizer.
#pragma once

#include <string>

#include <cohort/optimizers.hpp>

namespace cohort {

/// Returns "lr" if there is one optimizer; of several "lr-generator" for one with a name and "lr-1" for one without.
inline std::string label_of(const std::string& value, const Optimizers& optimizers, size_t optimizer) {
  if (!optimizers.name(optimizer).empty()) return value + "-" + optimizers.name(optimizer);
  return optimizers.size() == 1 ? value : value + "-" + std::to_string(optimizer);
}

}  // namespace cohort
