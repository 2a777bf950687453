// Whole files in and out, the way that results are written: beside the target, then renamed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace cohort {

/// Writes the parts one after another to a file beside `path`, flushes it to the disk and renames it to `path`. Throws
/// UserError that names the path and the system's reason; no part of the file is left then.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Writes the parts one after another to an open file. Throws UserError that names it `path` and gives the reason.
void write_parts(int descriptor, const std::filesystem::path& path, std::span<const std::span<const std::byte>> parts);

}  // namespace cohort
