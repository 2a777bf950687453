// Tensors by name in a file, in the safetensors format: readable from Python without cohort.
//
// Files are hostile until read: every number in the header is checked before it is used.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace cohort {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// What a safetensors file holds, in the order of the data.
struct SafetensorsFile {
  NamedTensors tensors;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> unreadable{};  ///< by name: why a tensor cannot be read

  /// The tensor with this name, or null. Throws UserError if its type cannot be read.
  const at::Tensor* find(std::string_view name) const&;
  std::unique_ptr<const at::Tensor> find(std::string_view name) &&;
};

/// Reads the whole file into CPU tensors. Throws UserError that names the file and what is wrong with it.
SafetensorsFile read_safetensors(const std::filesystem::path& path);

/// The same for the bytes of a file; `name` stands for it in messages.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

/// Writes the tensors (copied to the CPU where they are elsewhere) beside `path` and renames, so that an interrupted
/// write leaves the old file. Throws UserError where the file cannot be written, a name repeats, or a dtype has no
/// place in the format.
void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace cohort
