/* Service cohort.kernels/1: kernels by device type and id. Frozen from 1.0. */
#ifndef COHORT_API_HOST_KERNELS_H
#define COHORT_API_HOST_KERNELS_H

#include "../host.h"
#include "../kernels.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_KERNELS_ID "cohort.kernels/1"

typedef struct cohort_kernels_1 {
  /* Returns the table with this id for tensors of `device_type`, or null. Tables of kernels.h exist for the CPU and for
   * the device of the run, with every entry filled; the host asks the run's accelerator for other ids. The table lives
   * as long as the host object. [any-thread] */
  const void* (*table)(const cohort_host* host, int32_t device_type, const char* id)COHORT_NOEXCEPT;
} cohort_kernels_1;

COHORT_EXTERN_C_END
#endif
