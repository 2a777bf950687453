// Progress as people read it.
#pragma once

#include <cstdint>
#include <string>

namespace cohort {

/// "[#####     ] 35/70" with a bar of this many characters; "35" if the total is unknown (0 or less).
std::string bar_text(int64_t done, int64_t total, int width = 20);

/// "0:07", "12:30", "3:05:00"; "-:--" for what is unknown (below 0 or not finite).
std::string clock_text(double seconds);

/// Seconds until `total` is done, if the rest takes as long as what was done in `seconds`; below 0 if that is unknown.
double seconds_left(int64_t done, int64_t total, double seconds);

}  // namespace cohort
