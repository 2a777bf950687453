// The tensors of a module, for code that need not see torch::nn: by name, from a file, and their digest.
#pragma once

#include <string>

#include <cohort/safetensors.hpp>
#include <cohort/weights.hpp>

namespace torch::nn {
class Module;
}

namespace cohort {

class Module;

/// Returns the parameters in registration order, sharing memory with the module.
NamedTensors named_parameters_of(const torch::nn::Module& module);
NamedTensors named_parameters_of(const Module& module);
/// Returns the buffers that are defined, sharing memory with the module.
NamedTensors named_buffers_of(const torch::nn::Module& module);
NamedTensors named_buffers_of(const Module& module);
/// Returns parameters, then buffers.
NamedTensors named_state_of(const torch::nn::Module& module);
/// Returns the name of the module.
const std::string& name_of(const Module& module);

/// See load_weights; `path` begins messages.
NamesApart load_tensors(torch::nn::Module& module, const SafetensorsFile& file, const std::string& path, bool strict);

/// SHA-256 over the parameters in registration order, each as its contiguous little-endian bytes.
std::string weights_digest(const torch::nn::Module& module);

/// Returns the sizes as people write them: "[2, 3]".
std::string shape_text(const at::Tensor& tensor);

}  // namespace cohort
