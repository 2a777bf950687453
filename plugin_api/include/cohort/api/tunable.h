/* Extension cohort.tunable/1 of a strategy: ways to do the same that differ in speed, for the runtime to measure.
 *
 * get_extension(s, COHORT_TUNABLE_ID) gives the table or null. It lives as long as the strategy's layer; asked for when
 * the model is configured. Setting 0 is in use at first.
 */
#ifndef COHORT_API_TUNABLE_H
#define COHORT_API_TUNABLE_H

#include "status.h"
#include "version.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_TUNABLE_ID "cohort.tunable/1"

typedef struct cohort_tunable_1 {
  uint32_t struct_size;
  uint32_t count;              /* of settings */
  const char* const* settings; /* [count], as options are written: "hierarchical=true" */
  void* data;                  /* the layer's own */
  /* From the next step on. Between two steps, at the same one on all ranks of WORLD; plan_buckets is called next.
   * [main] */
  cohort_status (*use)(void* data, uint32_t setting) COHORT_NOEXCEPT;
} cohort_tunable_1;
#define COHORT_TUNABLE_SIZE_1_0 COHORT_END(cohort_tunable_1, use)

COHORT_EXTERN_C_END
#endif
