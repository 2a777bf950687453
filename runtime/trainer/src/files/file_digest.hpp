// Length and SHA-256 of a file, by which a damaged one is told from a whole one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace cohort {

struct FileDigest {
  uint64_t bytes = 0;
  std::string sha256;
  bool operator==(const FileDigest&) const = default;
};

/// Returns length and checksum of a regular file, which it reads to the end. Throws UserError if that fails.
FileDigest digest_of_file(const std::filesystem::path& path);

}  // namespace cohort
