/* Extension cohort.tunable/1 of a strategy: settings with the same effect but different speed, for the runtime to
 * measure.
 *
 * get_extension(s, COHORT_TUNABLE_ID) returns the table or null. The host asks when it configures the model; the table
 * lives as long as the strategy's layer. Setting 0 is in use at first.
 */
#ifndef COHORT_API_TUNABLE_H
#define COHORT_API_TUNABLE_H

#include "status.h"
#include "version.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_TUNABLE_ID "cohort.tunable/1"

typedef struct cohort_tunable_1 {
  uint32_t struct_size;
  uint32_t count;              /* number of settings */
  const char* const* settings; /* [count], written like options: "hierarchical=true" */
  void* data;                  /* the layer's own */
  /* Selects a setting, from the next step on. Called between two steps, at the same point on all ranks of WORLD;
   * plan_buckets is called next. [main] */
  cohort_status (*use)(void* data, uint32_t setting) COHORT_NOEXCEPT;
} cohort_tunable_1;
#define COHORT_TUNABLE_SIZE_1_0 COHORT_END(cohort_tunable_1, use)

COHORT_EXTERN_C_END
#endif
