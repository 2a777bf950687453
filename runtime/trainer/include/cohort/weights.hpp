// The weights of a module as a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace cohort {

/// Writes parameters and buffers, by name, as safetensors; written aside and renamed.
void save_weights(const torch::nn::Module& module, const std::filesystem::path& path);

/// Names that only one side has.
struct NamesApart {
  std::vector<std::string> missing;     ///< in the file
  std::vector<std::string> unexpected;  ///< in the file, and not in the module
};

/// Reads them back into the module, on its devices and in its dtypes. `strict`: the names must be the same on both
/// sides; else what is missing on either side is left alone and returned, with a warning if no name is the same. Shapes
/// must agree. Throws UserError that names file and tensor.
NamesApart load_weights(torch::nn::Module& module, const std::filesystem::path& path, bool strict = true);

}  // namespace cohort
