/* On top of layer_a: variants fancy, fast; option width. */
#include "test_plugin.h"

static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt)};
static const char* const variants[] = {"fancy", "fast", NULL};
static const cohort_option options[] = {{"width", "enum(thin|wide)", "thin", "Of layer_b", NULL, 0, 0}};
static const cohort_component strategy = {.struct_size = sizeof(cohort_component),
                                          .kind = COHORT_KIND_STRATEGY,
                                          .name = "layer_b",
                                          .summary = "A strategy for tests",
                                          .inherits = "layer_a",
                                          .variants = variants,
                                          .options = options,
                                          .num_options = 1,
                                          .vtable = &vtable};
static const cohort_component* const components[] = {&strategy, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
