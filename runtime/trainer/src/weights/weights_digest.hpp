// The digest of a module's weights that the summary reports.
#pragma once

#include <string>

namespace torch::nn {
class Module;
}

namespace cohort {

/// SHA-256 over the parameters in registration order, each as its contiguous little-endian bytes.
std::string weights_digest(const torch::nn::Module& module);

}  // namespace cohort
