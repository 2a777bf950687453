// The tables of cohort/api/kernels.h, completed: what an accelerator lacks the host has.
//
// On CPU that is portable code. On another device it is the same code on pinned memory, which the arguments are
// copied to and the results from: right, and slow. It is said in the log at the first use of each such kernel.
#pragma once

#include <string>
#include <string_view>

#include <cohort/api/accelerator.h>

namespace cohort::host {

struct KernelTables {
  cohort_kernels_core_1 core{};
  cohort_kernels_minmax_uint8_1 minmax_uint8{};
  cohort_kernels_adam_1 adam{};
  cohort_kernels_ring_1 ring{};

  /// Returns the table with this id, or null.
  const void* find(std::string_view id) const;
};

/// True for the ids that are cohort's own to give, known or not.
bool is_own_kernels_id(std::string_view id);

/// Returns all kernels for the CPU, compiled for any processor.
KernelTables portable_kernels(cohort_accelerator* a);
/// Returns all kernels in the form that goes through pinned memory. `a` is a host::Accelerator's.
KernelTables staged_kernels(cohort_accelerator* a);

/// The kernels of an accelerator for its device type.
struct Kernels {
  KernelTables own;    ///< the plugin's; null: it lacks the function
  KernelTables hosts;  ///< what runs in place of those that the plugin lacks, or for data types that it does not know
  KernelTables all;    ///< what strategies are given
};

/// Fills `own` and `all`, and returns the names of the functions that the plugin lacks, by commas. `a` is a
/// host::Accelerator's. Throws PluginRefused, which begins with `what`, for a table that cannot be read.
std::string put_own_kernels(Kernels& kernels, cohort_accelerator* a, const std::string& what);

}  // namespace cohort::host
