// Callbacks that every training has, and those that flags ask for.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include <cohort/callback.hpp>
#include <cohort/host/options.hpp>
#include <cohort/optimizers.hpp>

#include "metrics/rank_report.hpp"

namespace cohort {

/// Returns a callback that stops all ranks after the step in which one of them receives SIGINT, SIGTERM, SIGHUP or
/// SIGUSR1, and that ends this process if one of its activities then lasts longer than --timeout. Only one may exist at
/// a time. Main thread.
std::shared_ptr<Callback> stop_on_signal(Runtime& runtime);

/// Stops all ranks after the step in which this time is over since the call, by rank 0's clock.
std::shared_ptr<Callback> time_limit(std::chrono::seconds limit);

/// If an optimizer has a schedule: one that sets the rates and gives the groups their initial ones back in the end, and
/// one that logs them, unless that is among the given.
std::vector<std::shared_ptr<Callback>> callbacks_of_schedules(const Optimizers& optimizers,
                                                              const std::vector<std::shared_ptr<Callback>>& given);

/// `checkpoints` is the folder that this training writes checkpoints into, empty if it writes none. Throws UserError
/// for options that a callback does not have.
std::vector<std::shared_ptr<Callback>> callbacks_of_flags(const Options& options,
                                                          const std::filesystem::path& checkpoints);

}  // namespace cohort
