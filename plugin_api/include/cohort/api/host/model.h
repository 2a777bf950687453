/* Services cohort.params/1, cohort.optimizer/1 and cohort.kernels/1: the model, its optimizers and the device's
 * kernels. Frozen. Available from configure_model on (kernels: always). */
#ifndef COHORT_API_HOST_MODEL_H
#define COHORT_API_HOST_MODEL_H

#include "../kernels.h"
#include "../strategy.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_PARAMS_ID "cohort.params/1"
#define COHORT_OPTIMIZER_ID "cohort.optimizer/1"
#define COHORT_KERNELS_ID "cohort.kernels/1"

typedef struct cohort_params_1 {
  /* Parameters in registration order, frozen ones included (flag COHORT_TENSOR_REQUIRES_GRAD tells). [main] [step] */
  uint64_t (*count)(const cohort_host* host) COHORT_NOEXCEPT;
  cohort_status (*get)(const cohort_host* host, uint64_t index, cohort_tensor* weight) COHORT_NOEXCEPT;
  /* Buffers (running statistics and the like) in registration order. */
  uint64_t (*count_buffers)(const cohort_host* host) COHORT_NOEXCEPT;
  cohort_status (*get_buffer)(const cohort_host* host, uint64_t index, cohort_tensor* buffer) COHORT_NOEXCEPT;
} cohort_params_1;

typedef struct cohort_optimizer_1 {
  /* The host optimizer's step over all parameters of the phase. [step] */
  cohort_status (*step)(const cohort_host* host, uint32_t phase) COHORT_NOEXCEPT;
} cohort_optimizer_1;

typedef struct cohort_kernel_service_1 {
  /* Kernels for a device type, or null. [any-thread] */
  const cohort_kernels_1* (*table)(const cohort_host* host, int32_t device_type)COHORT_NOEXCEPT;
} cohort_kernel_service_1;

COHORT_EXTERN_C_END
#endif
