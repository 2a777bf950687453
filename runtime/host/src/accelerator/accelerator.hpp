// An accelerator plugin, created: for a rank's kernels and copies, or to ask for its devices.
//
// Borrows the host object. Threads: as cohort/api/accelerator.h says.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cohort/api/accelerator.h>
#include <cohort/host/host_object.hpp>

#include "accelerator/kernel_tables.hpp"
#include "accelerator/pinned_memory.hpp"

namespace cohort::host {

class Accelerator {
 public:
  using Options = std::vector<std::pair<std::string, std::string>>;

  /// Creates it with these options and the defaults of the others. Throws UserError for options that it does not have.
  Accelerator(const cohort_component& component, HostObject& host, const Options& options = {});
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  cohort_accelerator* get() { return &accelerator_; }
  /// Returns the object behind what get() has returned.
  static Accelerator& of(cohort_accelerator* a) { return static_cast<Object*>(a)->owner; }
  int32_t device_type() const { return table_.device_type; }
  /// Of this machine.
  int count_devices();
  /// Makes a device the calling thread's current one. Any thread.
  void select(int index);
  /// Returns what is known of a device of this machine.
  cohort_device_info device_info(int index);
  /// Asks for the kernels and completes their tables. Throws PluginRefused for a table that cannot be read.
  void take_kernels();
  /// Returns the table with this id for tensors of a device type, or null. After take_kernels(). Any thread.
  const void* kernels(int32_t device_type, const char* id);
  /// Returns the complete core table for its device type. After take_kernels().
  const cohort_kernels_core_1& core_kernels() const { return kernels_.all.core; }
  const Kernels& all_kernels() const { return kernels_; }
  /// True where its tensors can go through pinned memory.
  bool can_stage() const { return table_.alloc_pinned != nullptr; }
  /// Returns can_stage(), and says in the log, once for each kernel, that it runs on the CPU. Any thread.
  bool may_stage(std::string_view kernel);
  PinnedMemory& pinned() { return *pinned_; }

 private:
  struct Object : cohort_accelerator {
    Accelerator& owner;
  };

  std::string what_;
  HostObject& host_;
  cohort_accelerator_vt table_;
  Object accelerator_;
  std::optional<PinnedMemory> pinned_;  // given back before the accelerator is destroyed
  Kernels kernels_;                     // of its device type
  KernelTables cpu_kernels_;            // of the host, for the CPU beside another device
  std::mutex mutex_;
  std::set<std::string, std::less<>> staged_;  // kernels, as the log has said

  bool is_cpu() const { return table_.device_type == COHORT_DEVICE_CPU; }
};

}  // namespace cohort::host
