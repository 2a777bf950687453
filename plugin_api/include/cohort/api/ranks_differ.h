/* Extension cohort.ranks_differ/1 of a strategy: its ranks have different weights on purpose.
 *
 * A strategy without this extension promises that all ranks have the same weights between steps, to the bit. The host
 * compares a sample of them before each checkpoint and at the end of training, and ends the training if they differ.
 * get_extension(s, COHORT_RANKS_DIFFER_ID) returns a table or null. The table has no functions: the host only asks
 * whether there is one. [main]
 */
#ifndef COHORT_API_RANKS_DIFFER_H
#define COHORT_API_RANKS_DIFFER_H

#include "status.h"
#include "version.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_RANKS_DIFFER_ID "cohort.ranks_differ/1"

typedef struct cohort_ranks_differ_1 {
  uint32_t struct_size;
  uint32_t reserved0;
} cohort_ranks_differ_1;

COHORT_EXTERN_C_END
#endif
