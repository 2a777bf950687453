// Callbacks that every training has, and those that flags ask for.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include <cohort/callback.hpp>
#include <cohort/host/options.hpp>

#include "metrics/rank_report.hpp"

namespace cohort {

/// Stops all ranks after the step in which one of them gets SIGINT, SIGTERM or SIGHUP. One at a time, main thread.
std::shared_ptr<Callback> stop_on_signal();

/// Stops all ranks after the step in which this time is over since the call, by rank 0's clock.
std::shared_ptr<Callback> time_limit(std::chrono::seconds limit);

/// `checkpoints` is the folder that this training writes checkpoints into, empty if it writes none. Throws UserError
/// for options that a callback does not have.
std::vector<std::shared_ptr<Callback>> callbacks_of_flags(const Options& options,
                                                          const std::filesystem::path& checkpoints);

}  // namespace cohort
