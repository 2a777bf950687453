// An accelerator plugin, created: for a rank's kernels and copies, or to ask for its devices.
//
// Borrows the host object. Threads: as cohort/api/accelerator.h says.
#pragma once

#include <cstdint>
#include <string>

#include <cohort/api/accelerator.h>
#include <cohort/host/host_object.hpp>

namespace cohort::host {

class Accelerator {
 public:
  Accelerator(const cohort_component& component, HostObject& host);
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  cohort_accelerator* get() { return &accelerator_; }
  int32_t device_type() const { return table_.device_type; }
  /// Of this machine.
  int count_devices();
  /// Null where it has none.
  const cohort_kernels_1* kernels() { return table_.kernels ? table_.kernels(&accelerator_) : nullptr; }
  /// True where its tensors can go through pinned host memory.
  bool can_stage() const { return table_.alloc_pinned != nullptr; }

 private:
  std::string what_;
  HostObject& host_;
  cohort_accelerator_vt table_{};
  cohort_accelerator accelerator_;
};

}  // namespace cohort::host
