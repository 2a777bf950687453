// The table of strategies as people read it.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cohort::cli {

/// Returns a line for each strategy, what the columns mean, and every refusal with what to do instead.
std::string strategies_text(const nlohmann::ordered_json& entries);

}  // namespace cohort::cli
