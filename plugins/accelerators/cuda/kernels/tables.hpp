// The tables of cohort/api/kernels.h for CUDA memory.
//
// Static. Functions enqueue on the stream and return; all give the bits of the CPU's, except that sums of reductions
// have another, fixed order. Threads: any.
#pragma once

#include <cohort/api/kernels.h>

namespace cohort::cuda {

const cohort_kernels_core_1& core_table();
const cohort_kernels_minmax_uint8_1& minmax_uint8_table();
const cohort_kernels_adam_1& adam_table();
const cohort_kernels_ring_1& ring_table();

/// The one element that `fill` writes everywhere.
struct Element {
  uint64_t bits;  // in its first bytes
  uint64_t size;  // 0: there is no such data type
};
Element element_of(int32_t dtype, double value);

}  // namespace cohort::cuda
