// What a training step changes besides gradients, as it was before: for a step that has to be repeated.
//
// Random generators, buffers of the modules, and metric objects. Members that a step writes to are not among it.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cohort/module.hpp>

#include "metrics/metric_board.hpp"

namespace cohort {

class StepMemory {
 public:
  /// `board`: of the batch, or null.
  void keep(std::span<Module* const> modules, std::span<const c10::Device> devices, MetricBoard* board);
  void restore() const;

 private:
  std::vector<at::Tensor> buffers_, copies_;
  std::vector<std::pair<c10::Device, at::Tensor>> generators_;
  std::function<void()> restore_metrics_;
};

}  // namespace cohort
