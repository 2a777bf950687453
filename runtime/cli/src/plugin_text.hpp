// Reports about plugins as people read them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace cohort::cli {

/// One line for each plugin: name, kinds, version, summary or what is wrong with it.
std::string list_text(const nlohmann::ordered_json& entries);
/// Everything that a plugin says about itself.
std::string info_text(const nlohmann::ordered_json& report);

}  // namespace cohort::cli
