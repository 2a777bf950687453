// The kernel tables, one set for each instruction set that was compiled.
//
// Tables are static. All functions run on the calling thread and return INVALID_ARGUMENT for a data type they do not
// know.
#pragma once

#include <string_view>

#include <cohort/api/kernels.h>

namespace cohort::cpu {

struct KernelTables {
  cohort_kernels_core_1 core;
  cohort_kernels_minmax_uint8_1 minmax_uint8;
  cohort_kernels_adam_1 adam;
  cohort_kernels_ring_1 ring;

  /// Null for an unknown id.
  const void* find(std::string_view id) const;
};

/// "auto" is the widest instruction set of this processor. Null for one that it or this build does not have.
const KernelTables* kernels_for(std::string_view isa);

}  // namespace cohort::cpu
