/* A strategy of somebody else that says what it can do. */
#include <string.h>

#include "test_plugin.h"

static void supports(const cohort_host* host, cohort_query* query) {
  (void)host;
  if (query->use == COHORT_USE_NODES) query->answer = COHORT_ANSWER_YES;
  if (query->use != COHORT_USE_ACCUMULATION) return;
  query->answer = strcmp(query->variant, "fancy") == 0 ? COHORT_ANSWER_YES : COHORT_ANSWER_NO;
  query->why = "it keeps no sums";
  query->fix = "choose stranger:fancy";
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt)};
static const char* const variants[] = {"plain", "fancy", "same", NULL};
static const cohort_component strategy = {.struct_size = sizeof(cohort_component),
                                          .kind = COHORT_KIND_STRATEGY,
                                          .name = "stranger",
                                          .summary = "A strategy for tests",
                                          .variants = variants,
                                          .vtable = &vtable,
                                          .supports = supports};
static const cohort_component* const components[] = {&strategy, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
