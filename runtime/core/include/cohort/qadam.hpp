// Adam for strategies that compress momentum, with the number of its steps before they do.
//
// By itself, under all other strategies and with one rank it is torch::optim::Adam. Strategies that take Adam or AdamW
// as well assume 100 steps; an option of theirs wins. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/optim/adam.h>

namespace cohort {

class QAdam final : public torch::optim::Adam {
 public:
  static constexpr int64_t kWarmupSteps = 100;

  /// `warmup_steps`: optimizer steps, at least 1, else UserError. Other settings are Adam's.
  explicit QAdam(std::vector<at::Tensor> parameters, torch::optim::AdamOptions options = {},
                 int64_t warmup_steps = kWarmupSteps);
  QAdam(const std::vector<torch::optim::OptimizerParamGroup>& groups, torch::optim::AdamOptions options,
        int64_t warmup_steps);

  int64_t warmup_steps() const { return warmup_steps_; }

 private:
  int64_t warmup_steps_;
};

}  // namespace cohort
