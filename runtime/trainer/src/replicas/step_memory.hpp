// Keeps the state of modules, generators and metric objects from before a training step, so that it can be repeated.
//
// The state is that of LibTorch's default generators, of buffers and modes of the modules, and of metric objects.
// Weights, other members that a step writes to, and a program's own generators are not kept.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cohort/module.hpp>

#include "metrics/logged_metrics.hpp"

namespace cohort {

class StepMemory {
 public:
  void keep(std::span<Module* const> modules, std::span<const c10::Device> devices);
  /// Returns false if the step has written to weights, which are not kept.
  bool restore();
  /// Returns the journal of changes to metric objects.
  LoggedMetrics::Journal& metrics() { return metrics_; }

 private:
  std::vector<Module*> modules_;
  std::vector<at::Tensor> buffers_, places_, copies_;  // the modules', their memory, and copies of it
  std::vector<std::vector<bool>> modes_;               // by module
  std::vector<std::pair<c10::Device, at::Tensor>> generators_;
  LoggedMetrics::Journal metrics_;
  uint64_t versions_ = 0;  // of the weights

  uint64_t versions() const;
};

}  // namespace cohort
