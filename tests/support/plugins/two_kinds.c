/* A strategy and an accelerator of the same name in one file. */
#include "test_plugin.h"

static cohort_status device_count(cohort_accelerator* a, int32_t* count) {
  (void)a;
  *count = 1;
  return COHORT_OK;
}

static const cohort_accelerator_vt accelerator_vtable = {.struct_size = sizeof(cohort_accelerator_vt),
                                                         .device_type = COHORT_DEVICE_CPU,
                                                         .torch_device_type = "cpu",
                                                         .device_count = device_count};
static const cohort_component accelerator = {.struct_size = sizeof(cohort_component),
                                             .kind = COHORT_KIND_ACCELERATOR,
                                             .name = "two_kinds",
                                             .summary = "An accelerator for tests",
                                             .vtable = &accelerator_vtable};
static const cohort_strategy_vt strategy_vtable = {.struct_size = sizeof(cohort_strategy_vt)};
static const cohort_component strategy = {.struct_size = sizeof(cohort_component),
                                          .kind = COHORT_KIND_STRATEGY,
                                          .name = "two_kinds",
                                          .summary = "A strategy for tests",
                                          .vtable = &strategy_vtable};
static const cohort_component* const components[] = {&accelerator, &strategy, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
