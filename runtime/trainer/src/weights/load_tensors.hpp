// Gives a module the tensors of a file.
#pragma once

#include <string>

#include <cohort/safetensors.hpp>
#include <cohort/weights.hpp>

namespace torch::nn {
class Module;
}

namespace cohort {

/// See load_weights; `path` begins messages.
NamesApart load_tensors(torch::nn::Module& module, const SafetensorsFile& file, const std::string& path, bool strict);

}  // namespace cohort
