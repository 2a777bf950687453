// Reports what strategy plugins answer about their uses.
#pragma once

#include <string>

#include "opened_apart.hpp"

namespace cohort::cli {

/// Returns {"gpu": whether the plugin of this name holds an accelerator for GPUs, "strategies": [one for each variant
/// that answers in its own way]}. A strategy: {"name": "ddp", "state": "installed", "spread": "k x 1", "advice": "",
/// "uses": {"clip": true, {"who", "why", "fix"} of a refusal, or null if it does not say, ...}}. Free layers are none.
/// Opens the plugin in this process: call it through opened_apart.
Json report_strategies(host::PluginHost& plugins, host::Log& log, const std::string& name);

}  // namespace cohort::cli
