// What a plugin file must be before anything in it is run.
#pragma once

#include <filesystem>

#include <cohort/host/log.hpp>

namespace cohort::host {

/// Throws PluginRefused where the file is no readable regular file, can be changed by everyone (or replaced: its folder
/// is world-writable without the sticky bit), or is no complete ELF shared library for this machine. Warns about an
/// owner who is neither this user nor root. Links are followed; both ends must pass.
void check_plugin_file(const std::filesystem::path& file, Log& log);

}  // namespace cohort::host
