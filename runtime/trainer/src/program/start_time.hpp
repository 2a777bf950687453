// When the run began: exec of its first process.
#pragma once

#include <chrono>

#include <cohort/host/environment.hpp>

namespace cohort {

/// Name of the variable in which a launching process hands the time on, as nanoseconds of CLOCK_REALTIME.
constexpr const char* kStartTimeVariable = "COHORT_START_TIME_NS";

/// Set for ranks whose launching process has said what was chosen and why.
constexpr const char* kSaidWhyVariable = "COHORT_SAID_WHY";

/// What the variable says, or the start of this process. As CLOCK_REALTIME.
std::chrono::nanoseconds run_start_time(const host::Variables& variables);

}  // namespace cohort
