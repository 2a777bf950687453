/* A free layer NAME that multiplies the learning rates of all optimizers by FACTOR. Built once for each factor. */
#include "test_plugin.h"

#ifndef NAME
#define NAME "lr_factor"
#define FACTOR 2.0
#endif

static cohort_status configure_model(cohort_strategy* s) {
  const cohort_optimizer_1* optimizers = s->host->get_interface(s->host, COHORT_OPTIMIZER_ID);
  cohort_status status = s->below->vt->configure_model(s->below);
  for (uint32_t phase = 0; status == COHORT_OK && phase < optimizers->count(s->host); ++phase) {
    status = optimizers->set_lr_factor(s->host, phase, FACTOR);
  }
  return status;
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt),
                                          .configure_model = configure_model};
static const cohort_component layer = {.struct_size = sizeof(cohort_component),
                                       .kind = COHORT_KIND_STRATEGY,
                                       .name = NAME,
                                       .summary = "multiplies learning rates",
                                       .inherits = "*",
                                       .vtable = &vtable};
static const cohort_component* const components[] = {&layer, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
