// Says which of two values of a metric is better.
#pragma once

namespace cohort {

enum class Mode { kMin, kMax };

}  // namespace cohort
