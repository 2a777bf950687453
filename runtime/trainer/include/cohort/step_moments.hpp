// Tells which hooks within a step a class overrides: --graph replays steps, and calls none of them.
#pragma once

#include <cstdint>
#include <iterator>

namespace cohort {

class StepMoments {
 public:
  enum Moment : uint8_t { kBeforeBackward, kAfterBackward, kBeforeOptimizerStep, kBeforeZeroGrad };

  /// Returns the name of the first hook that is not the empty one of the base class, or null. Known after a step that
  /// has called all of them.
  const char* overridden_moment() const {
    constexpr const char* kNames[] = {"on_before_backward", "on_after_backward", "on_before_optimizer_step",
                                      "on_before_zero_grad"};
    for (uint8_t moment = 0; moment < std::size(kNames); ++moment) {
      if (!is_empty_moment(static_cast<Moment>(moment))) return kNames[moment];
    }
    return nullptr;
  }
  bool is_empty_moment(Moment moment) const { return (empty_ & (1U << moment)) != 0; }

 protected:
  /// The empty hook of the base class was called.
  void note_empty(Moment moment) { empty_ |= 1U << moment; }

 private:
  uint8_t empty_ = 0;  // bit by bit
};

}  // namespace cohort
