// The table of strategies as people read it.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cohort::cli {

/// A line for each strategy, what the columns mean, every refusal with its way out, and what to mind.
std::string strategies_text(const nlohmann::ordered_json& entries);

}  // namespace cohort::cli
