/* Extension cohort.figures/1 of a strategy: numbers for the summary of a run, beside those that the runtime takes.
 *
 * get_extension(s, COHORT_FIGURES_ID) gives the table or null. It lives as long as the strategy's layer; read after the
 * end of training, on every rank; rank 0's values are shown.
 */
#ifndef COHORT_API_FIGURES_H
#define COHORT_API_FIGURES_H

#include "status.h"
#include "version.h"

COHORT_EXTERN_C_BEGIN

#define COHORT_FIGURES_ID "cohort.figures/1"

typedef struct cohort_figures_1 {
  uint32_t struct_size;
  uint32_t count;
  const char* const* names; /* [count], keys of the summary: "rounds" */
  void* data;               /* the layer's own */
  /* The value of names[index]. [main] */
  double (*get)(void* data, uint32_t index) COHORT_NOEXCEPT;
} cohort_figures_1;

COHORT_EXTERN_C_END
#endif
