// The state of an optimizer as tensors by name: "optimizer.exp_avg.fc1.weight".
//
// SGD, Adam, AdamW, RMSprop and Adagrad are taken apart; any other one goes through its own save and load into one
// tensor of bytes, "optimizer.archive". Settings (learning rate and the like, which schedules change) go apart.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <torch/optim/optimizer.h>

#include <cohort/optimizers.hpp>
#include <cohort/safetensors.hpp>

#include "checkpoint/manifest.hpp"
#include "state/tensor_index.hpp"

namespace torch::nn {
class Module;
}

namespace cohort {

class StepDriver;

/// Names of a module's parameters by their TensorImpl, as optimizers know them; a tied one has its first name.
using ParameterNames = std::unordered_map<const void*, std::string>;
ParameterNames parameter_names(const torch::nn::Module& module);
/// The same of a training, whose optimizers may know master weights.
ParameterNames parameter_names(const StepDriver& session);

/// What all names of optimizer tensors begin with.
std::string optimizer_prefix(size_t phase, size_t phases);  // "optimizer.", or "optimizer.1." of several

/// Tensors shared with the optimizer. Throws UserError for one of the user's own that keeps state but cannot save it.
NamedTensors optimizer_tensors(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                               const std::string& prefix);
OptimizerSettings optimizer_settings(torch::optim::Optimizer& optimizer, const ParameterNames& names);

/// Throws UserError, beginning with `file`, where the optimizer of the checkpoint is another one.
void check_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names, const std::string& prefix,
                     const OptimizerSettings& saved, const TensorIndex& tensors, const std::string& file);
/// Returns all names that tensors of this optimizer's state can have in a checkpoint; with `of`, only those of
/// parameters for which it returns true, and none of an archive.
std::set<std::string, std::less<>> optimizer_names(torch::optim::Optimizer& optimizer, const ParameterNames& names,
                                                   const std::string& prefix,
                                                   const std::function<bool(const at::Tensor&)>& of = nullptr);
/// After check_optimizer: copies state and settings. May be repeated.
void restore_optimizer(torch::optim::Optimizer& optimizer, const ParameterNames& names, const std::string& prefix,
                       const OptimizerSettings& saved, const TensorIndex& tensors);

}  // namespace cohort
