/* A free layer whose ranks drift apart: gradients are not averaged, and each rank adds what it remembers of earlier
 * ones. The memory is a STATE buffer, and a count of steps that weakens it goes through archive/1. */
#include <cohort/api/cohort.h>
#include <stdlib.h>
#include <string.h>

typedef struct drifting {
  uint64_t steps;
} drifting;

static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* options, uint64_t count) {
  (void)variant, (void)options, (void)count;
  s->data = calloc(1, sizeof(drifting));
  return s->data ? COHORT_OK : COHORT_RESOURCE_EXHAUSTED;
}

static void destroy(cohort_strategy* s) {
  free(s->data);
}

static cohort_status plan_buckets(cohort_strategy* s, cohort_bucket_plan* plan) {
  const cohort_buckets_1* buckets = s->host->get_interface(s->host, COHORT_BUCKETS_ID);
  const cohort_status status = s->below->vt->plan_buckets(s->below, plan);
  return status != COHORT_OK ? status : buckets->want(s->host, COHORT_BUCKET_STATE, "memory", 0, 0);
}

static cohort_status reduce_bucket(cohort_strategy* s, const cohort_step* step, const cohort_bucket* bucket) {
  const drifting* self = s->data;
  const cohort_buckets_1* buckets = s->host->get_interface(s->host, COHORT_BUCKETS_ID);
  cohort_tensor gradient, memory;
  (void)step;
  if (buckets->view(s->host, bucket->index, COHORT_BUCKET_GRAD, 0, &gradient) != COHORT_OK) return COHORT_INTERNAL;
  if (buckets->view(s->host, bucket->index, COHORT_BUCKET_STATE, "memory", &memory) != COHORT_OK) {
    return COHORT_INTERNAL;
  }
  float *g = gradient.data, *m = memory.data;
  for (uint64_t i = 0; i < bucket->numel; ++i) {
    g[i] += m[i] / (float)(2 + self->steps);
    m[i] = 0.5f * m[i] + g[i];
  }
  return COHORT_OK;
}

static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  ((drifting*)s->data)->steps++;
  return s->below->vt->end_step(s->below, step);
}

static cohort_status save_state(cohort_strategy* s) {
  const drifting* self = s->data;
  const cohort_archive_1* archive = s->host->get_interface(s->host, COHORT_ARCHIVE_ID);
  const cohort_status status = s->below->vt->save_state(s->below);
  return status != COHORT_OK ? status : archive->set(s->host, "steps", 0, &self->steps, sizeof self->steps);
}

static cohort_status load_state(cohort_strategy* s) {
  drifting* self = s->data;
  const cohort_archive_1* archive = s->host->get_interface(s->host, COHORT_ARCHIVE_ID);
  uint64_t nbytes = 0;
  const cohort_status status = s->below->vt->load_state(s->below);
  if (status != COHORT_OK) return status;
  if (archive->get(s->host, "nothing", &nbytes, sizeof nbytes, &nbytes) != COHORT_NOT_FOUND) {
    return COHORT_INTERNAL;
  }
  if (archive->get(s->host, "steps", &self->steps, 1, &nbytes) != COHORT_RESOURCE_EXHAUSTED || nbytes != 8) {
    return COHORT_INTERNAL;
  }
  return archive->get(s->host, "steps", &self->steps, sizeof self->steps, &nbytes);
}

static cohort_status pause(cohort_strategy* s, int32_t reason) {
  const cohort_archive_1* archive = s->host->get_interface(s->host, COHORT_ARCHIVE_ID);
  if (archive->set(s->host, "late", 0, "", 0) == COHORT_OK) return COHORT_INTERNAL; /* not in a pause */
  return s->below->vt->pause(s->below, reason);
}

static void supports(const cohort_host* host, cohort_query* query) {
  (void)host;
  if (query->use == COHORT_USE_EQUAL_RANKS) query->answer = COHORT_ANSWER_NO;
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof vtable,
                                          .create = create,
                                          .destroy = destroy,
                                          .plan_buckets = plan_buckets,
                                          .reduce_bucket = reduce_bucket,
                                          .end_step = end_step,
                                          .pause = pause,
                                          .save_state = save_state,
                                          .load_state = load_state};

static const cohort_component component = {.struct_size = sizeof component,
                                           .kind = COHORT_KIND_STRATEGY,
                                           .name = "drifting",
                                           .summary = "ranks remember their own gradients and do not average",
                                           .inherits = "*",
                                           .vtable = &vtable,
                                           .supports = supports};
static const cohort_component* const components[] = {&component, 0};

const cohort_plugin cohort_plugin_0 = {.magic = COHORT_PLUGIN_MAGIC,
                                       .struct_size = sizeof(cohort_plugin),
                                       .abi_built = COHORT_ABI_VERSION,
                                       .abi_required = COHORT_RUNS_ON_ABI,
                                       .id = "org.example.drifting",
                                       .version = "1.0.0",
                                       .vendor = "Example",
                                       .license = "MIT",
                                       .components = components};
