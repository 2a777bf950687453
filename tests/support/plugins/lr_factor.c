/* A free layer NAME that multiplies the learning rate of each optimizer by `factor`, from its step `at` on. */
#include <stdlib.h>
#include <string.h>

#include <cohort/api/values.h>

#include "test_plugin.h"

#ifndef NAME
#define NAME "lr_factor"
#endif

typedef struct lr_factor {
  double factor;
  int64_t at;
} lr_factor;

static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* options, uint64_t count) {
  lr_factor* own = calloc(1, sizeof *own);
  (void)variant;
  if (!own) return COHORT_RESOURCE_EXHAUSTED;
  s->data = own;
  for (uint64_t i = 0; i < count; ++i) {
    if (!strcmp(options[i].key, "factor") && !cohort_read_float(options[i].value, &own->factor)) return COHORT_INTERNAL;
    if (!strcmp(options[i].key, "at") && !cohort_read_int(options[i].value, &own->at)) return COHORT_INTERNAL;
  }
  return COHORT_OK;
}

static void destroy(cohort_strategy* s) {
  free(s->data);
}

static cohort_status begin_step(cohort_strategy* s, const cohort_step* step) {
  const lr_factor* own = s->data;
  const cohort_optimizer_1* optimizers = s->host->get_interface(s->host, COHORT_OPTIMIZER_ID);
  const cohort_status status = s->below->vt->begin_step(s->below, step);
  if (status != COHORT_OK || step->step != (uint64_t)own->at) return status;
  return optimizers->set_lr_factor(s->host, step->phase, own->factor);
}

static const cohort_option options[] = {{"factor", "float", "1", "of the learning rate", NULL, 0, 0},
                                        {"at", "int", "0", "step from which on it is set", NULL, 0, 0}};
static const cohort_strategy_vt vtable = {
    .struct_size = sizeof(cohort_strategy_vt), .create = create, .destroy = destroy, .begin_step = begin_step};
static const cohort_component layer = {.struct_size = sizeof(cohort_component),
                                       .kind = COHORT_KIND_STRATEGY,
                                       .name = NAME,
                                       .summary = "multiplies learning rates",
                                       .inherits = "*",
                                       .options = options,
                                       .num_options = 2,
                                       .vtable = &vtable};
static const cohort_component* const components[] = {&layer, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
