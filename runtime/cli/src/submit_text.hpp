// Reads the texts of options of `cohort submit`.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <cohort/submit.hpp>

namespace cohort::cli {

/// Reads "2h", "90m", "02:00:00" or "1-12:00:00". Throws UserError for anything else, also for a bare number, which
/// SLURM takes for minutes and other options for seconds.
std::chrono::seconds time_limit(std::string_view text);

/// Reads "NAME", "NAME=VALUE" and "NAME=VALUE # comment".
JobDirective directive(std::string_view text);

/// Reads "FLAG=VALUE,VALUE,...".
GridFlag grid_flag(std::string_view text);

}  // namespace cohort::cli
