// What a strategy plugin itself says about jobs, from its plans.
#pragma once

#include <string>

#include "opened_apart.hpp"

namespace cohort::cli {

/// {"strategy": what it plans or null, "gpu": does it hold an accelerator for GPUs} for the plugin of this name. What
/// it plans: {"free": is it a layer for any strategy, "spread": "k x 1", "uses": {"alone": true or the refusal, ...}}.
/// Opens the plugin in this process: call it through opened_apart.
Json look_at_plugin(host::PluginHost& plugins, host::Log& log, const std::string& name);

}  // namespace cohort::cli
