/* The lower strategy of a chain: variants slow, fast; options width, depth. */
#include "test_plugin.h"

static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt)};
static const char* const variants[] = {"slow", "fast", NULL};
static const cohort_option options[] = {{"width", "int", "1", "Of layer_a, hidden by layer_b", NULL, 0, 0},
                                        {"depth", "size", "1KiB", "Of layer_a alone", NULL, 0, 0}};
static const cohort_component strategy = {.struct_size = sizeof(cohort_component),
                                          .kind = COHORT_KIND_STRATEGY,
                                          .name = "layer_a",
                                          .summary = "A strategy for tests",
                                          .inherits = "base",
                                          .variants = variants,
                                          .options = options,
                                          .num_options = 2,
                                          .vtable = &vtable};
static const cohort_component* const components[] = {&strategy, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
