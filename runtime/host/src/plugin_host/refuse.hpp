// How a plugin file is refused.
#pragma once

#include <filesystem>
#include <string_view>

namespace cohort::host {

/// Throws PluginRefused: "plugin file '...' is refused: " and the problem, which says how to mend it.
[[noreturn]] void refuse(const std::filesystem::path& file, std::string_view problem);

}  // namespace cohort::host
