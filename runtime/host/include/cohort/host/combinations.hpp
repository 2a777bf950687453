// What each strategy that cohort knows by name combines with. One table: the default strategy, the refusals and
// `cohort strategies` follow it.
//
// Constant data, for any thread. What depends on a plugin's own options is the plugin's to refuse, in its plan.
#pragma once

#include <span>
#include <string_view>

#include <cohort/host/spec.hpp>

namespace cohort::host {

/// What a job may ask of its strategy.
enum class Use {
  kAlone,
  kLaunched,
  kNodes,
  kGpu,
  kOwnLoop,
  kAccumulation,
  kClipping,
  kSeveralOptimizers,
  kByHand,
  kLbfgs
};

struct UseText {
  Use use;
  std::string_view name;     ///< heading of a column: "nodes"
  std::string_view meaning;  ///< after "it can": "train on several nodes"
};
std::span<const UseText> uses();

struct Combination {
  std::string_view strategy;
  std::string_view spread;  ///< processes x replicas on a node with k devices: "1 x k"
  std::string_view advice;  ///< said when it is chosen for several devices; may be empty
};
std::span<const Combination> combinations();

/// Why the strategy cannot do this, and what to do instead: "WHY; FIX". Empty where it can, and for a strategy that is
/// not in the table.
std::string_view refusal_of(std::string_view strategy, Use use);
/// The same, also of its variant alone.
std::string_view refusal_of(const StrategySpec& strategy, Use use);

}  // namespace cohort::host
