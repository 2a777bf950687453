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

/// Puts the functions that the accelerator's own tables have over those of `tables`, and returns the names of those
/// that it lacks, by commas. Throws PluginRefused, which begins with `what`, for a table that cannot be read.
std::string put_own_kernels(KernelTables& tables, cohort_accelerator* a, const std::string& what);

}  // namespace cohort::host
