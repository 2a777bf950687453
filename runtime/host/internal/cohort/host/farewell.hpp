// How ranks take leave of each other, after a failure or at the end: whoever serves the store stays until the others
// have read what they need.
#pragma once

#include <chrono>
#include <functional>

namespace cohort::host {

/// The longest time that a rank stays at its end, so that others on busy cores can read what it has written.
inline constexpr std::chrono::milliseconds kGraceTime{3000};

/// Blocks while another rank `is_awaited`, but at most for the grace time.
void stay_while(const std::function<bool()>& is_awaited);

}  // namespace cohort::host
