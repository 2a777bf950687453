/* Goes on any strategy: variant loud; option site. */
#include "test_plugin.h"

static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt)};
static const char* const variants[] = {"loud", NULL};
static const cohort_option options[] = {{"site", "string", "", "Of layer_free", NULL, 0, 0}};
static const cohort_component layer = {.struct_size = sizeof(cohort_component),
                                       .kind = COHORT_KIND_STRATEGY,
                                       .name = "layer_free",
                                       .summary = "A layer for tests",
                                       .inherits = "*",
                                       .variants = variants,
                                       .options = options,
                                       .num_options = 1,
                                       .vtable = &vtable};
static const cohort_component* const components[] = {&layer, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
