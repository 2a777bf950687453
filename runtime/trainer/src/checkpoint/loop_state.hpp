// The state of a training on this rank for a checkpoint, besides weights, optimizers and strategy.
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "state/state_tree.hpp"

namespace cohort {

struct LoopState {
  LoopPlace place;
  std::optional<TrainingEnd> end{};           ///< for the manifest: this is the end of the training
  std::vector<OptimizerSettings> optimizers;  ///< for the manifest
  NamedTensors entries{};                     ///< in sections; see state_tree.hpp
};

/// Throws UserError for state that no loop can resume with.
void check_loop_state(const StateReader& state);

}  // namespace cohort
