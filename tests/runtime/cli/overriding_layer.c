/* A free layer that fills one slot. */
#include <cohort/api/strategy.h>

static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  return s->below->vt->end_step(s->below, step);
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt), .end_step = end_step};
static const cohort_component layer = {
    .struct_size = sizeof(cohort_component),
    .kind = COHORT_KIND_STRATEGY,
    .name = "overriding",
    .summary = "fills end_step",
    .inherits = "*",
    .vtable = &vtable,
};
static const cohort_component* const components[] = {&layer, 0};

COHORT_EXPORT const cohort_plugin cohort_plugin_0 = {
    .magic = COHORT_PLUGIN_MAGIC,
    .struct_size = sizeof(cohort_plugin),
    .abi_built = COHORT_ABI_VERSION,
    .abi_required = COHORT_RUNS_ON_ABI,
    .id = "org.cohort.test.overriding",
    .version = "1.0.0",
    .vendor = "cohort",
    .license = "Apache-2.0",
    .components = components,
};
