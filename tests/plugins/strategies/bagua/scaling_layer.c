/* A free layer that sets a factor of the learning rate before step `at`. */
#include <cohort/api/cohort.h>
#include <cohort/api/values.h>
#include <stdlib.h>
#include <string.h>

typedef struct scaling {
  double factor;
  int64_t at;
} scaling;

static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* options, uint64_t count) {
  scaling* own = calloc(1, sizeof *own);
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
  const scaling* own = s->data;
  const cohort_optimizer_1* optimizers = s->host->get_interface(s->host, COHORT_OPTIMIZER_ID);
  const cohort_status status = s->below->vt->begin_step(s->below, step);
  if (status != COHORT_OK || step->step != (uint64_t)own->at) return status;
  return optimizers->set_lr_factor(s->host, 0, own->factor);
}

static const cohort_strategy_vt kSlots = {
    .struct_size = sizeof kSlots, .create = create, .destroy = destroy, .begin_step = begin_step};

static const cohort_option kOptions[] = {{"factor", "float", "1", "of the learning rate", NULL, 0, 0},
                                         {"at", "int", "0", "step from which on it is set", NULL, 0, 0}};

static const cohort_component kComponent = {.struct_size = sizeof kComponent,
                                            .kind = COHORT_KIND_STRATEGY,
                                            .name = "scaling",
                                            .summary = "sets a factor of the learning rate",
                                            .inherits = "*",
                                            .options = kOptions,
                                            .num_options = 2,
                                            .vtable = &kSlots};
static const cohort_component* const kComponents[] = {&kComponent, 0};

const cohort_plugin cohort_plugin_0 = {.magic = COHORT_PLUGIN_MAGIC,
                                       .struct_size = sizeof(cohort_plugin),
                                       .abi_built = COHORT_ABI_VERSION,
                                       .abi_required = COHORT_RUNS_ON_ABI,
                                       .id = "org.example.scaling",
                                       .version = "1.0.0",
                                       .vendor = "Example",
                                       .license = "MIT",
                                       .components = kComponents};
