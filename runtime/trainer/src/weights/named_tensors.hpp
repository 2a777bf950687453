// The tensors of a module by their names, for code that need not see torch::nn.
#pragma once

#include <string>

#include <cohort/safetensors.hpp>

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
/// Returns the name of the module.
const std::string& name_of(const Module& module);

/// Returns the sizes as people write them: "[2, 3]".
std::string shape_text(const at::Tensor& tensor);

}  // namespace cohort
