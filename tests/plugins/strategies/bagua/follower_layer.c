/* A free layer that follows the weights in STATE "momentum", of type DTYPE, and takes a part of it off them after each
 * step of the layers below. It asks for another layout in each step, every second one with a buffer more, so that all
 * others move. Built twice, as LAYER with FACTOR and DTYPE: both use the same name. */
#include <cohort/api/cohort.h>
#include <stdlib.h>

static const cohort_buckets_1* buckets_of(const cohort_strategy* s) {
  return s->host->get_interface(s->host, COHORT_BUCKETS_ID);
}

static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* options, uint64_t count) {
  (void)variant, (void)options, (void)count;
  s->data = calloc(1, sizeof(uint64_t)); /* plans made */
  return s->data ? COHORT_OK : COHORT_RESOURCE_EXHAUSTED;
}

static void destroy(cohort_strategy* s) {
  free(s->data);
}

static cohort_status plan_buckets(cohort_strategy* s, cohort_bucket_plan* plan) {
  const cohort_buckets_1* buckets = buckets_of(s);
  const uint64_t plans = ++*(uint64_t*)s->data;
  const cohort_status status = s->below->vt->plan_buckets(s->below, plan);
  if (status != COHORT_OK) return status;
  if (plans % 2 == 0) buckets->want(s->host, COHORT_BUCKET_STATE, "a spare one", 0, COHORT_STATE_SCRATCH);
  buckets->want(s->host, COHORT_BUCKET_WEIGHT, NULL, 0, 0);
  return buckets->want(s->host, COHORT_BUCKET_STATE, "momentum", DTYPE, COHORT_STATE_SHARED);
}

static cohort_status optimizer_step(cohort_strategy* s, const cohort_step* step) {
  cohort_status status = s->below->vt->optimizer_step(s->below, step);
  for (uint32_t index = 0; status == COHORT_OK && index < buckets_of(s)->count(s->host); ++index) {
    const uint64_t numel = buckets_of(s)->get(s->host, index)->numel;
    cohort_tensor weights, momentum;
    status = buckets_of(s)->view(s->host, index, COHORT_BUCKET_WEIGHT, NULL, &weights);
    if (status == COHORT_OK) status = buckets_of(s)->view(s->host, index, COHORT_BUCKET_STATE, "momentum", &momentum);
    if (status != COHORT_OK || momentum.dtype != DTYPE) return COHORT_INTERNAL;
    NUMBER* m = momentum.data;
    float* w = weights.data;
    for (uint64_t i = 0; i < numel; ++i) {
      m[i] = m[i] / 2 + FACTOR * w[i];
      w[i] = (float)(w[i] - m[i] / 64);
    }
  }
  return status;
}

static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  const cohort_status status = s->below->vt->end_step(s->below, step);
  return status != COHORT_OK ? status : buckets_of(s)->request_relayout(s->host);
}

static const cohort_strategy_vt kSlots = {.struct_size = sizeof kSlots,
                                          .create = create,
                                          .destroy = destroy,
                                          .plan_buckets = plan_buckets,
                                          .optimizer_step = optimizer_step,
                                          .end_step = end_step};

static const cohort_component kComponent = {.struct_size = sizeof kComponent,
                                            .kind = COHORT_KIND_STRATEGY,
                                            .name = LAYER,
                                            .summary = "takes a momentum of the weights off them",
                                            .inherits = "*",
                                            .vtable = &kSlots};
static const cohort_component* const kComponents[] = {&kComponent, 0};

const cohort_plugin cohort_plugin_0 = {.magic = COHORT_PLUGIN_MAGIC,
                                       .struct_size = sizeof(cohort_plugin),
                                       .abi_built = COHORT_ABI_VERSION,
                                       .abi_required = COHORT_RUNS_ON_ABI,
                                       .id = "org.example." LAYER,
                                       .version = "1.0.0",
                                       .vendor = "Example",
                                       .license = "MIT",
                                       .components = kComponents};
