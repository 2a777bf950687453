// The state of the strategy as tensors of a checkpoint: "cohort.state/LAYER/NAME/fc1.weight" for STATE, and
// "cohort.strategy/LAYER/KEY" for values of archive/1.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <cohort/host/strategy_state.hpp>
#include <cohort/safetensors.hpp>

#include "state/tensor_index.hpp"

namespace torch::nn {
class Module;
}

namespace cohort {

struct StrategyTensors {
  NamedTensors shared;  ///< what a layer calls equal on all ranks
  NamedTensors own;     ///< this rank's
};
StrategyTensors strategy_tensors(const torch::nn::Module& module, const host::StrategyState& state);
/// Reads both back. What `per_rank` (of the manifest) does not list is shared.
host::StrategyState strategy_state(const torch::nn::Module& module, const TensorIndex& tensors,
                                   const std::vector<std::string>& per_rank);
/// Throws UserError, beginning with `file`, if state of a strategy belongs to no parameter, or has another type or
/// size.
void check_state_of_strategy(const torch::nn::Module& module, const TensorIndex& tensors, const std::string& file);

/// Returns what all ranks share, or what is this rank's own, in words: "STATE 'memory' of layer 'drifting'".
std::vector<std::string> names_of(const host::StrategyState& state, bool is_shared);
/// Returns the name of an entry with policy kStrategy in words: "STATE 'memory/fc1.weight' of layer 'drifting'".
std::string description_of(std::string_view tensor);

}  // namespace cohort
