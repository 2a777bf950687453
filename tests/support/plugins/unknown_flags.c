#include "test_plugin.h"

static const cohort_strategy_vt table = {.struct_size = sizeof(cohort_strategy_vt), .flags = 0x80000000u};
static const cohort_component strategy = {.struct_size = sizeof(cohort_component),
                                          .kind = COHORT_KIND_STRATEGY,
                                          .name = "unknown_flags",
                                          .summary = "A strategy for tests",
                                          .vtable = &table};
static const cohort_component* const components[] = {&strategy, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
