// A short fingerprint of a file, by which ranks see that they run the same plugins. No protection against forgery.
#pragma once

#include <filesystem>
#include <string>

namespace cohort::host {

/// FNV-1a of the file's bytes, 64 bits as 16 hex digits. Throws PluginRefused where the file cannot be read.
std::string content_hash(const std::filesystem::path& file);

}  // namespace cohort::host
