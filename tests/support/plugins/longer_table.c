#include "test_plugin.h"

/* A function of a version that is not there yet. */
static cohort_status do_more(void) {
  return COHORT_OK;
}

typedef struct newer_vt {
  cohort_strategy_vt known;
  cohort_status (*do_more)(void);
} newer_vt;
static const newer_vt newer = {{.struct_size = sizeof(newer_vt)}, do_more};
static const cohort_component strategy = {.struct_size = sizeof(cohort_component),
                                          .kind = COHORT_KIND_STRATEGY,
                                          .name = "longer_table",
                                          .summary = "A strategy for tests",
                                          .vtable = &newer};
static const cohort_component* const components[] = {&strategy, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
