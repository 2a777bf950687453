// Finds weights that a loss depends on and that nobody trains, because they were not registered in the module.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace cohort {

/// Returns the leaves of the tensors' graphs that would get a gradient.
std::vector<at::Tensor> leaves_of(const std::vector<at::Tensor>& roots);

class UnregisteredLeaves {
 public:
  /// Walks the autograd graph of these tensors and remembers the leaves that require grad and are no parameters of the
  /// module.
  void note(const std::vector<at::Tensor>& roots, const torch::nn::Module& module);
  /// Throws UserError, with their shapes, if leaves outlive the step: weights do, unlike an input of which the step has
  /// taken a gradient. Call it when the step's batch, outputs and graph are gone.
  void check(const torch::nn::Module& module) const;

 private:
  using WeakTensor = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;
  std::vector<WeakTensor> leaves_;
};

}  // namespace cohort
