// An accelerator plugin, created: for a rank's kernels and copies, or to ask for its devices.
//
// Borrows the host object. Threads: as cohort/api/accelerator.h says.
#pragma once

#include <cstdint>
#include <optional>
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
  /// Asks for the kernels, whose table strategies then read in full. Throws PluginRefused for a table that cannot be
  /// read.
  void take_kernels();
  /// Returns what take_kernels() has found, or null.
  const cohort_kernels_1* kernels() const { return kernels_ ? &*kernels_ : nullptr; }
  /// True where its tensors can go through pinned host memory.
  bool can_stage() const { return table_.alloc_pinned != nullptr; }

 private:
  std::string what_;
  HostObject& host_;
  cohort_accelerator_vt table_;
  cohort_accelerator accelerator_;
  std::optional<cohort_kernels_1> kernels_;
};

}  // namespace cohort::host
