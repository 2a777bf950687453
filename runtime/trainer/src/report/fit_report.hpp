// Callbacks that show a training while it runs; for rank 0.
#pragma once

#include <filesystem>
#include <memory>

#include <cohort/callback.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// A bar on a terminal, and a log line for each epoch.
std::shared_ptr<Callback> screen(Runtime& runtime);

/// The table of all logged values, metrics.csv in `folder`. Throws UserError if the folder cannot be made.
std::shared_ptr<Callback> metrics_file(const std::filesystem::path& folder);

}  // namespace cohort
