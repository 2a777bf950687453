// The names that users give to best checkpoints: a pattern with values in their places.
#pragma once

#include <cstdint>
#include <string>

namespace cohort {

/// The link to the best one, beside those with names of the users.
constexpr const char* kBestLink = "best";

/// Returns the pattern with step, epoch and the metric's value in their places: "e{epoch}-{val/loss:.2f}" gives
/// "e3-0.25". Throws UserError for an invalid pattern, and for one that gives an invalid file name.
std::string link_name(const std::string& pattern, const std::string& metric, double value, int64_t epoch,
                      uint64_t step);

}  // namespace cohort
