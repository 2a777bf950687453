/* A free layer that keeps the sum of all mean gradients in STATE and steps with it, in the buckets' own memory: right
 * only where STATE and weights follow a change of the layout. Ends the run at step `tell_at` with the layout as text.
 * `flags` are added to those of the layout that it asks for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/api/cohort.h>

typedef struct options {
  int32_t tell_at;
  uint32_t flags;
} options;

static const cohort_buckets_1* buckets_of(const cohort_strategy* s) {
  return s->host->get_interface(s->host, COHORT_BUCKETS_ID);
}

static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* given, uint64_t count) {
  options* own = calloc(1, sizeof *own);
  (void)variant;
  if (!own) return COHORT_RESOURCE_EXHAUSTED;
  for (uint64_t i = 0; i < count; ++i) {
    if (!strcmp(given[i].key, "tell_at")) own->tell_at = atoi(given[i].value);
    if (!strcmp(given[i].key, "flags")) own->flags = (uint32_t)atoi(given[i].value);
  }
  s->data = own;
  return COHORT_OK;
}

static void destroy(cohort_strategy* s) {
  free(s->data);
}

static cohort_status plan_buckets(cohort_strategy* s, cohort_bucket_plan* plan) {
  const cohort_buckets_1* buckets = buckets_of(s);
  const options* own = s->data;
  const cohort_status status = s->below->vt->plan_buckets(s->below, plan);
  if (status != COHORT_OK) return status;
  plan->size = 12;
  plan->first_size = 4;
  plan->flags |= COHORT_PLAN_KEEP_SIZE | own->flags;
  buckets->want(s->host, COHORT_BUCKET_WEIGHT, 0, 0, 0);
  return buckets->want(s->host, COHORT_BUCKET_STATE, "sum", 0, 0);
}

static float* values_of(const cohort_strategy* s, uint32_t bucket, int32_t kind, const char* name) {
  cohort_tensor view;
  return buckets_of(s)->view(s->host, bucket, kind, name, &view) == COHORT_OK ? view.data : 0;
}

static cohort_status reduce_bucket(cohort_strategy* s, const cohort_step* step, const cohort_bucket* bucket) {
  const cohort_status status = s->below->vt->reduce_bucket(s->below, step, bucket);
  const float* gradients = values_of(s, bucket->index, COHORT_BUCKET_GRAD, 0);
  float* sum = values_of(s, bucket->index, COHORT_BUCKET_STATE, "sum");
  if (status != COHORT_OK) return status;
  for (uint64_t i = 0; i < bucket->numel; ++i) sum[i] += gradients[i];
  return COHORT_OK;
}

static cohort_status optimizer_step(cohort_strategy* s, const cohort_step* step) {
  (void)step;
  for (uint32_t index = 0; index < buckets_of(s)->count(s->host); ++index) {
    const cohort_bucket* bucket = buckets_of(s)->get(s->host, index);
    float* weights = values_of(s, index, COHORT_BUCKET_WEIGHT, 0);
    const float* sum = values_of(s, index, COHORT_BUCKET_STATE, "sum");
    for (uint64_t i = 0; i < bucket->numel; ++i) weights[i] -= sum[i];
  }
  return COHORT_OK;
}

static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  char text[256] = "layout:";
  const options* own = s->data;
  if (own->tell_at < 0 || step->step != (uint64_t)own->tell_at) return s->below->vt->end_step(s->below, step);
  for (uint32_t index = 0; index < buckets_of(s)->count(s->host); ++index) {
    const cohort_bucket* bucket = buckets_of(s)->get(s->host, index);
    strcat(text, index ? " |" : "");
    for (uint64_t i = 0; i < bucket->num_parts; ++i) strcat(strcat(text, " "), bucket->parts[i].name);
  }
  return s->host->fail(s->host, COHORT_DATA_LOSS, text);
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof vtable,
                                          .create = create,
                                          .destroy = destroy,
                                          .plan_buckets = plan_buckets,
                                          .reduce_bucket = reduce_bucket,
                                          .optimizer_step = optimizer_step,
                                          .end_step = end_step};

static const cohort_option known_options[] = {{"tell_at", "int", "-1", "step at which to end", NULL, 0, 0},
                                              {"flags", "int", "0", "of the layout", NULL, 0, 0}};

static const cohort_component component = {.struct_size = sizeof component,
                                           .kind = COHORT_KIND_STRATEGY,
                                           .name = "momentum",
                                           .summary = "steps with the sum of all mean gradients",
                                           .inherits = "*",
                                           .options = known_options,
                                           .num_options = 2,
                                           .vtable = &vtable};
static const cohort_component* const components[] = {&component, 0};

const cohort_plugin cohort_plugin_0 = {.magic = COHORT_PLUGIN_MAGIC,
                                       .struct_size = sizeof(cohort_plugin),
                                       .abi_built = COHORT_ABI_VERSION,
                                       .abi_required = COHORT_RUNS_ON_ABI,
                                       .id = "org.example.momentum",
                                       .version = "1.0.0",
                                       .vendor = "Example",
                                       .license = "MIT",
                                       .components = components};
