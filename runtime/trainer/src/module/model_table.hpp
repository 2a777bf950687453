// The table of a model's children and their parameters, as the log shows it before training.
#pragma once

#include <string>

namespace torch::nn {
class Module;
}

namespace cohort {

/// Lines without a newline at the end: header `  | Name | Type | Params`, a row per child (and per parameter of the
/// root module), then trainable, non-trainable and total parameters and their size in MB.
std::string model_table(const torch::nn::Module& module);

}  // namespace cohort
