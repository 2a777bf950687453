/* A free layer with two settings that change nothing but are counted. Ends the run at step `tell_at` with the setting
 * in use and how often it was changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/api/cohort.h>

static const char* const settings[] = {"way=first", "way=second"};

typedef struct layer {
  cohort_tunable_1 tunable;
  uint32_t setting;
  int32_t changes, tell_at;
} layer;

static cohort_status use(void* data, uint32_t setting) {
  layer* own = data;
  own->changes += own->setting != setting;
  own->setting = setting;
  return COHORT_OK;
}

static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* given, uint64_t count) {
  layer* own = calloc(1, sizeof *own);
  (void)variant;
  if (!own) return COHORT_RESOURCE_EXHAUSTED;
  own->tunable = (cohort_tunable_1){sizeof own->tunable, 2, settings, own, use};
  own->tell_at = -1;
  for (uint64_t i = 0; i < count; ++i) {
    if (!strcmp(given[i].key, "tell_at")) own->tell_at = atoi(given[i].value);
  }
  s->data = own;
  return COHORT_OK;
}

static void destroy(cohort_strategy* s) {
  free(s->data);
}

static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  char text[64];
  const layer* own = s->data;
  if (own->tell_at < 0 || step->step != (uint64_t)own->tell_at) return s->below->vt->end_step(s->below, step);
  snprintf(text, sizeof text, "%s after %d changes", settings[own->setting], own->changes);
  return s->host->fail(s->host, COHORT_DATA_LOSS, text);
}

static const void* get_extension(cohort_strategy* s, const char* id) {
  layer* own = s->data;
  return strcmp(id, COHORT_TUNABLE_ID) ? s->below->vt->get_extension(s->below, id) : &own->tunable;
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof vtable,
                                          .create = create,
                                          .destroy = destroy,
                                          .end_step = end_step,
                                          .get_extension = get_extension};

static const cohort_option known_options[] = {{"tell_at", "int", "-1", "step at which to end", NULL, 0, 0}};

static const cohort_component component = {.struct_size = sizeof component,
                                           .kind = COHORT_KIND_STRATEGY,
                                           .name = "tunable",
                                           .summary = "has two ways to do the same",
                                           .inherits = "*",
                                           .options = known_options,
                                           .num_options = 1,
                                           .vtable = &vtable};
static const cohort_component* const components[] = {&component, 0};

const cohort_plugin cohort_plugin_0 = {.magic = COHORT_PLUGIN_MAGIC,
                                       .struct_size = sizeof(cohort_plugin),
                                       .abi_built = COHORT_ABI_VERSION,
                                       .abi_required = COHORT_RUNS_ON_ABI,
                                       .id = "org.example.tunable",
                                       .version = "1.0.0",
                                       .vendor = "Example",
                                       .license = "MIT",
                                       .components = components};
