// Assigns each unit of the model to a part: rank 0 measures the units, the strategy cuts, and all ranks have the
// result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <cohort/runtime.hpp>
#include <cohort/step_driver.hpp>

#include "parts/unit_profile.hpp"

namespace cohort {

struct PartsPlan {
  std::vector<size_t> parts;        ///< of each unit, in the order of registration
  std::vector<size_t> order;        ///< numbers of the units as they are read
  std::vector<uint32_t> in_flight;  ///< by part: pieces at most; 0: any number
  std::vector<WrittenBuffer> written;
  bool has_training_end = false;    ///< the module has a training_step_end
  bool runs_forward_first = false;  ///< backward begins when all pieces have ended forward
};

/// Returns the plan for the module of a training. `measure` is called on the first rank, and may change the number of
/// pieces, which all ranks take from it. Logs the parts. Collective. Throws UserError if the strategy refuses.
PartsPlan plan_parts(Runtime& runtime, const StepDriver& session, size_t& num_pieces,
                     const std::function<UnitProfile()>& measure);

}  // namespace cohort
