// Evaluation mode in all replicas of a module until the end of a scope.
#pragma once

#include <span>
#include <vector>

#include <cohort/module.hpp>

namespace cohort {

class EvaluationMode {
 public:
  /// Replica 0 is the first; afterwards every submodule of each is in the mode that replica 0's was in before.
  explicit EvaluationMode(std::span<torch::nn::Module* const> replicas)
      : replicas_(replicas), modes_(detail::training_modes(*replicas.front())) {
    for (torch::nn::Module* const module : replicas_) module->eval();
  }
  ~EvaluationMode() {
    for (torch::nn::Module* const module : replicas_) detail::set_training_modes(*module, modes_);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::span<torch::nn::Module* const> replicas_;
  std::vector<bool> modes_;
};

}  // namespace cohort
