// The optimizers of a model: one, or several in order (each is then a phase of the step).
//
// Shares ownership of the optimizers. Not thread-safe.
#pragma once

#include <concepts>
#include <memory>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

namespace cohort {

class Optimizers {
 public:
  Optimizers() = default;
  /// From one optimizer by value: `return torch::optim::Adam(parameters(), 1e-3);`
  template <std::derived_from<torch::optim::Optimizer> Optimizer>
  Optimizers(Optimizer optimizer) {  // NOLINT(google-explicit-constructor): what configure_optimizers returns
    add(std::make_shared<Optimizer>(std::move(optimizer)));
  }
  Optimizers(std::shared_ptr<torch::optim::Optimizer> optimizer) { add(std::move(optimizer)); }  // NOLINT

  Optimizers& add(std::shared_ptr<torch::optim::Optimizer> optimizer) {
    optimizers_.push_back(std::move(optimizer));
    return *this;
  }

  size_t size() const { return optimizers_.size(); }
  torch::optim::Optimizer& operator[](size_t phase) const { return *optimizers_[phase]; }
  auto begin() const { return optimizers_.begin(); }
  auto end() const { return optimizers_.end(); }

 private:
  std::vector<std::shared_ptr<torch::optim::Optimizer>> optimizers_;
};

}  // namespace cohort
