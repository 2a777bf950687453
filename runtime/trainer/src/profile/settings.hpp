// The file and the traced steps that --profile asks for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include <cohort/host/options.hpp>

namespace cohort {

struct ProfileSettings {
  std::filesystem::path file;  ///< for the trace
  uint64_t steps = 0;          ///< in the trace
  uint64_t warmup = 0;         ///< steps before them
};

/// Returns the settings of a program's n-th training, from 1, or nothing without the flag: FILE of the first one is
/// FILE-fit-2 of the second, before the ending. Throws UserError for options that the flag does not have.
std::optional<ProfileSettings> profile_settings(const Options& options, int64_t fit);

}  // namespace cohort
