// Which ranks keep the optimizer's state of each parameter: all of them, or the one that owns it.
//
// Belongs to one rank and one model. Not thread-safe: [main], or [step].
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace cohort::host {

/// The ranks that keep the optimizer's state of a parameter and step it.
enum class StateKeeper : uint8_t { kEveryRank, kThisRank, kAnotherRank };

class StateOwners {
 public:
  /// Begins with a model of this many parameters and optimizers, whose state every rank keeps.
  void reset(size_t parameters, size_t phases) {
    keepers_.assign(parameters, StateKeeper::kEveryRank);
    own_.assign(phases, {});
    is_owned_.assign(phases, 0);
  }
  /// Records that of all parameters of a phase this rank owns some, and other ranks the rest.
  void own(uint32_t phase, std::span<const uint32_t> all, std::span<const uint32_t> own) {
    for (const uint32_t parameter : all) keepers_[parameter] = StateKeeper::kAnotherRank;
    for (const uint32_t parameter : own) keepers_[parameter] = StateKeeper::kThisRank;
    own_[phase].assign(own.begin(), own.end());
    is_owned_[phase] = 1;
  }
  /// Returns whether the parameters of a phase have owners.
  bool is_owned(uint32_t phase) const { return is_owned_[phase] != 0; }
  bool any() const { return std::ranges::count(is_owned_, 1) > 0; }
  /// Returns what this rank owns of a phase.
  std::span<const uint32_t> own(uint32_t phase) const { return own_[phase]; }
  StateKeeper of(uint32_t parameter) const { return keepers_[parameter]; }

 private:
  std::vector<StateKeeper> keepers_;        // by parameter
  std::vector<std::vector<uint32_t>> own_;  // by phase
  std::vector<uint8_t> is_owned_;           // by phase
};

}  // namespace cohort::host
