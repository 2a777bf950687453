/* A free layer that reads each bucket's gradients before the layers below reduce them, and the loss of each step. It
 * changes nothing, and tells at the end what it has read. */
#include <stdio.h>
#include <stdlib.h>

#include "test_plugin.h"

typedef struct watcher {
  uint64_t buckets, values;
  uint64_t nonzero; /* so that memory that nobody has filled is noticed */
  float first_loss, last_loss;
} watcher;

static const cohort_buckets_1* buckets_of(const cohort_strategy* s) {
  return s->host->get_interface(s->host, COHORT_BUCKETS_ID);
}

static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* options, uint64_t count) {
  (void)variant, (void)options, (void)count;
  s->data = calloc(1, sizeof(watcher));
  return s->data ? COHORT_OK : COHORT_RESOURCE_EXHAUSTED;
}

static void destroy(cohort_strategy* s) {
  free(s->data);
}

static cohort_status plan_buckets(cohort_strategy* s, cohort_bucket_plan* plan) {
  const cohort_status status = s->below->vt->plan_buckets(s->below, plan);
  return status != COHORT_OK ? status : buckets_of(s)->want(s->host, COHORT_BUCKET_GRAD, NULL, 0, 0);
}

static cohort_status reduce_bucket(cohort_strategy* s, const cohort_step* step, const cohort_bucket* bucket) {
  watcher* self = s->data;
  cohort_tensor gradient;
  const cohort_status status = buckets_of(s)->view(s->host, bucket->index, COHORT_BUCKET_GRAD, NULL, &gradient);
  if (status != COHORT_OK) return status;
  if (gradient.dtype != COHORT_FLOAT32) return s->host->fail(s->host, COHORT_UNIMPLEMENTED, "it reads float32 alone");
  for (uint64_t i = 0; i < bucket->numel; ++i) self->nonzero += ((const float*)gradient.data)[i] != 0.0F;
  self->buckets++;
  self->values += bucket->numel;
  return s->below->vt->reduce_bucket(s->below, step, bucket);
}

static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  watcher* self = s->data;
  const cohort_stream_1* streams = s->host->get_interface(s->host, COHORT_STREAM_ID);
  const cohort_memory_1* memory = s->host->get_interface(s->host, COHORT_MEMORY_ID);
  const cohort_bucket* bucket = buckets_of(s)->get(s->host, 0);
  cohort_stream stream;
  cohort_status status = streams->current(s->host, bucket->device_type, bucket->device_index, &stream);
  if (status == COHORT_OK) {
    status = memory->read(s->host, &self->last_loss, step->loss, sizeof self->last_loss, &stream);
  }
  if (step->step == 0) self->first_loss = self->last_loss;
  return status != COHORT_OK ? status : s->below->vt->end_step(s->below, step);
}

/* A loss that is shown too early would be one of an earlier step. */
static cohort_status begin_step(cohort_strategy* s, const cohort_step* step) {
  if (step->loss) return s->host->fail(s->host, COHORT_INTERNAL, "there is a loss before the step");
  return s->below->vt->begin_step(s->below, step);
}

static cohort_status shutdown(cohort_strategy* s) {
  const watcher* self = s->data;
  const cohort_log_1* log = s->host->get_interface(s->host, COHORT_LOG_ID);
  char line[192];
  snprintf(line, sizeof line, "watcher: %llu buckets, %llu values, %llu of them not zero, losses %.7g to %.7g",
           (unsigned long long)self->buckets, (unsigned long long)self->values, (unsigned long long)self->nonzero,
           (double)self->first_loss, (double)self->last_loss);
  log->log(s->host, COHORT_LOG_INFO, line);
  return s->below->vt->shutdown(s->below);
}

/* It only looks, so that every use is right. */
static void supports(const cohort_host* host, cohort_query* query) {
  (void)host;
  query->answer = query->use <= COHORT_USE_LOSS_SCALER ? COHORT_ANSWER_YES : COHORT_ANSWER_UNKNOWN;
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt),
                                          .flags = COHORT_STRATEGY_READS_LOSS,
                                          .create = create,
                                          .destroy = destroy,
                                          .plan_buckets = plan_buckets,
                                          .begin_step = begin_step,
                                          .reduce_bucket = reduce_bucket,
                                          .end_step = end_step,
                                          .shutdown = shutdown};
static const cohort_component layer = {.struct_size = sizeof(cohort_component),
                                       .kind = COHORT_KIND_STRATEGY,
                                       .name = "watcher",
                                       .summary = "reads gradients and losses, and changes nothing",
                                       .inherits = "*",
                                       .supports = supports,
                                       .vtable = &vtable};
static const cohort_component* const components[] = {&layer, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
