/* Service cohort.metrics/1: numbers of a strategy for the summary of a run. Frozen from 1.0. Threads: [any-thread]. */
#ifndef COHORT_API_HOST_METRICS_H
#define COHORT_API_HOST_METRICS_H

#include "../host.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_METRICS_ID "cohort.metrics/1"

typedef struct cohort_metrics_1 {
  /* Sets a number of the summary, beside the runtime's own and never in place of one. The last value of any layer in a
   * training counts; the summary shows rank 0's. `name` is [a-z][a-z0-9_]{0,63}: "rounds"; it is copied. `value` is
   * finite. The number is forgotten when the next training begins, before configure_model. */
  cohort_status (*set)(const cohort_host* host, const char* name, double value) COHORT_NOEXCEPT;
} cohort_metrics_1;

COHORT_EXTERN_C_END
#endif
