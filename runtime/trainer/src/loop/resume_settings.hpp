// Settings of optimizers of a training that is resumed: the checkpoint's or the program's.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <cohort/host/options.hpp>

#include "checkpoint/checkpoint.hpp"

namespace cohort {

/// Puts the settings that the run resumes with into the checkpoint, also the rates that schedules begin with. Returns a
/// line for the log about each that differs. `own` are those of the program, by optimizer; `scheduled` says which of
/// them have a schedule.
std::set<std::string> settle_settings(ResumeSettings which, const std::vector<OptimizerSettings>& own,
                                      const std::vector<bool>& scheduled, LoadedCheckpoint& checkpoint);

}  // namespace cohort
