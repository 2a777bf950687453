// Finds steps that write to weights while others read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <cohort/host/error.hpp>

namespace cohort {

/// Throws where a step changes weights that other replicas, or pieces of the batch, use at the same time.
class WeightGuard {
 public:
  explicit WeightGuard(const torch::nn::Module& module) : parameters_(module.named_parameters()) {
    for (const auto& item : parameters_) versions_.push_back(item.value()._version());
  }
  void check(const char* step) const {
    size_t index = 0;
    for (const auto& item : parameters_) {
      if (item.value()._version() == versions_[index++]) continue;
      throw UserError(
          std::string(step) + " wrote to parameter '" + item.key() +
          "' while other replicas or pieces of the batch use the same weights; do it in training_step_end or in a hook "
          "of the epoch, or choose --strategy=ddp");
    }
  }

 private:
  torch::OrderedDict<std::string, at::Tensor> parameters_;
  std::vector<int64_t> versions_;
};

}  // namespace cohort
