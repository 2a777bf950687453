// Files in the IDX format of the MNIST database, plain or gzip-compressed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

struct IdxArray {
  std::vector<int64_t> shape;
  std::vector<uint8_t> values;
};

/// Reads an array of unsigned bytes with this many dimensions. Throws cohort::UserError that names the file where it is
/// missing, truncated, of another kind, or longer than its header says.
IdxArray read_idx(const std::filesystem::path& path, int dimensions);
