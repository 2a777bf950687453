// The weights of a module as a file.
#pragma once

#include <filesystem>

namespace torch::nn {
class Module;
}

namespace cohort {

/// Writes parameters and buffers, by name, as safetensors; written aside and renamed.
void save_weights(const torch::nn::Module& module, const std::filesystem::path& path);

/// Reads them back into the module, on its devices and in its dtypes. `strict`: the names must be the same on both
/// sides; else what is missing on either side is left alone. Shapes must agree. Throws UserError that names file and
/// tensor.
void load_weights(torch::nn::Module& module, const std::filesystem::path& path, bool strict = true);

}  // namespace cohort
