// The model as a strategy with parts cuts it (cohort.parts/1): units in, the beginnings of parts out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cohort::host {

/// A module with parameters and the operators behind it; see cohort_unit. Figures are those of one piece of a batch.
struct ModelUnit {
  std::string name;
  double seconds = 0;            ///< forward and backward
  uint64_t weight_bytes = 0;     ///< with gradients and the optimizer's state
  uint64_t kept_bytes = 0;       ///< from forward for backward
  uint64_t crossing_bytes = 0;   ///< made up to here and read by later units
  uint64_t transient_bytes = 0;  ///< beside all that while it computes
  bool stays = false;            ///< no part begins here
};

struct PartsCut {
  std::vector<uint32_t> first_units;  ///< by part; the first is 0
  std::vector<uint32_t> in_flight;    ///< by part: pieces that have begun forward and not ended backward; 0: any number
};

}  // namespace cohort::host
