// The losses of the steps that run, for layers that read them (cohort_step.loss).
//
// A loss is added on its own device, on the thread of its replica; the sum of the replicas is made on the step thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

namespace cohort {

class StepLosses {
 public:
  StepLosses(uint32_t num_phases, uint32_t num_replicas);

  /// Begins a step of a phase.
  void reset(uint32_t phase);
  /// Adds a scalar loss of any floating-point type, times the scale of its backward.
  void add(uint32_t phase, uint32_t replica, const at::Tensor& loss, double scale);
  /// Returns copies of the sums of a phase, by replica.
  std::vector<at::Tensor> copy(uint32_t phase) const;
  /// Returns to them.
  void restore(uint32_t phase, const std::vector<at::Tensor>& copies);
  /// Returns the sum over the replicas: one float on this device, at the same place in every step.
  const float* sum(uint32_t phase, at::Device device);

 private:
  struct Phase {
    std::map<c10::DeviceIndex, at::Tensor> sums;  // those that were asked for
    std::vector<at::Tensor> of_replicas;          // undefined until a replica has added a loss
  };
  std::vector<Phase> phases_;
};

}  // namespace cohort
