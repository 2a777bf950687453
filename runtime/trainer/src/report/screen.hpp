// Shows a training while it runs.
#pragma once

#include <memory>

#include <cohort/callback.hpp>
#include <cohort/runtime.hpp>

namespace cohort {

/// A bar on a terminal, and a log line for each epoch; for rank 0.
std::shared_ptr<Callback> screen(Runtime& runtime);

}  // namespace cohort
