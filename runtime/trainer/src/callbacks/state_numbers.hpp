// Numbers that a callback reads from its state in a checkpoint, which may claim anything.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <cohort/callback.hpp>
#include <cohort/host/error.hpp>
#include <cohort/host/in_quotes.hpp>

namespace cohort {

/// Throws UserError, naming the value, unless it is finite and not below 0.
inline double amount_in(const CallbackState& state, const std::string& name) {
  const double amount = state.number(name);
  if (std::isfinite(amount) && amount >= 0) return amount;
  throw UserError("the state of a callback has a number that is not possible in " + host::in_quotes(name) +
                  "; resume from another checkpoint");
}

/// The same for a number of things.
inline int64_t count_in(const CallbackState& state, const std::string& name) {
  constexpr double kMost = 1e15;
  return static_cast<int64_t>(std::min(amount_in(state, name), kMost));
}

}  // namespace cohort
