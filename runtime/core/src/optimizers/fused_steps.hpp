// Steps of torch::optim's SGD, Adam and AdamW on a device by LibTorch's fused kernels, which take many parameters at
// once: torch::optim itself launches three to nine kernels for each.
//
// The state is the optimizer's own, so checkpoints and strategies see no difference; results differ from torch::optim's
// by roundings. A kernel reads the count of steps on the device, so that a replay of a captured step counts as well.
// Step thread.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include <cohort/optimizer_kinds.hpp>

namespace cohort {

class FusedSteps {
 public:
  using Groups = std::vector<std::vector<at::Tensor>>;  ///< parameters by group

  /// Steps the parameters that the kernel of `kind`, the optimizer's, can take: gradient and state are dense, on the
  /// same device, of the same floating type and laid out alike. Returns the other ones that have a gradient. Throws
  /// UserError for a step that is captured and that a replay could not repeat.
  Groups step(torch::optim::Optimizer& optimizer, const OptimizerKind& kind);

  /// Tells whether the coming steps are captured. A parameter can be captured after a step that made its state.
  void set_capturing(bool is_capturing) { is_capturing_ = is_capturing; }
  /// Counts the step of a replay in the optimizer's state. Throws UserError if something else has changed the counts.
  void count_replayed_step();

 private:
  struct Count {
    int64_t steps = 0;
    at::Tensor on_device;  // the same number; float32, no dimensions
  };
  struct Captured {
    torch::optim::Optimizer* optimizer;
    const OptimizerKind* kind;
    void* parameter;  // key of the optimizer's state
  };

  bool is_capturing_ = false;
  std::unordered_map<void*, Count> counts_;  // by key of the optimizer's state
  std::vector<Captured> captured_;

  std::vector<at::Tensor> step_group(torch::optim::Optimizer& optimizer, const OptimizerKind& kind,
                                     torch::optim::OptimizerParamGroup& group);
  at::Tensor count_on_device(const at::Tensor& parameter, int64_t steps);
  void note_step(torch::optim::Optimizer& optimizer, const OptimizerKind& kind, const at::Tensor& parameter);
};

}  // namespace cohort
