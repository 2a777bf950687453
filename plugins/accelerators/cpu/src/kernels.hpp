// The kernel tables, one for each instruction set that was compiled.
//
// Tables are static. All functions run on the calling thread and return INVALID_ARGUMENT for a data type they do not
// know.
#pragma once

#include <string_view>

#include <cohort/api/kernels.h>

namespace cohort::cpu {

/// "auto" is the widest instruction set of this processor. Null for one that it or this build does not have.
const cohort_kernels_1* kernels_for(std::string_view isa);

}  // namespace cohort::cpu
