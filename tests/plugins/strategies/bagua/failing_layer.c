/* A free layer that fails in the slot `in`: in step `at`, in the layout that was asked for in that step, or in
 * save_state. */
#include <cohort/api/cohort.h>
#include <stdlib.h>
#include <string.h>

typedef struct failing {
  char in[32];
  int64_t at;
  int64_t step; /* that has begun last, from 0 */
} failing;

static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* options, uint64_t count) {
  failing* own = calloc(1, sizeof *own);
  (void)variant;
  if (!own) return COHORT_RESOURCE_EXHAUSTED;
  own->step = -1;
  for (uint64_t i = 0; i < count; ++i) {
    if (!strcmp(options[i].key, "in")) strncpy(own->in, options[i].value, sizeof own->in - 1);
    if (!strcmp(options[i].key, "at")) own->at = atoi(options[i].value);
  }
  s->data = own;
  return COHORT_OK;
}

static void destroy(cohort_strategy* s) {
  free(s->data);
}

static cohort_status after(cohort_strategy* s, cohort_status status, const char* slot) {
  const failing* own = s->data;
  if (status != COHORT_OK || strcmp(own->in, slot) || own->step != own->at) return status;
  return s->host->fail(s->host, COHORT_DATA_LOSS, "the middle layer gives up");
}

static cohort_status begin_step(cohort_strategy* s, const cohort_step* step) {
  ((failing*)s->data)->step = (int64_t)step->step;
  return after(s, s->below->vt->begin_step(s->below, step), "begin_step");
}
static cohort_status plan_buckets(cohort_strategy* s, cohort_bucket_plan* plan) {
  return after(s, s->below->vt->plan_buckets(s->below, plan), "plan_buckets");
}
static cohort_status layout_ready(cohort_strategy* s, int32_t reason) {
  return after(s, s->below->vt->layout_ready(s->below, reason), "layout_ready");
}
static cohort_status reduce_bucket(cohort_strategy* s, const cohort_step* step, const cohort_bucket* bucket) {
  return after(s, s->below->vt->reduce_bucket(s->below, step, bucket), "reduce_bucket");
}
static cohort_status end_backward(cohort_strategy* s, const cohort_step* step) {
  return after(s, s->below->vt->end_backward(s->below, step), "end_backward");
}
static cohort_status optimizer_step(cohort_strategy* s, const cohort_step* step) {
  return after(s, s->below->vt->optimizer_step(s->below, step), "optimizer_step");
}
static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  return after(s, s->below->vt->end_step(s->below, step), "end_step");
}
static cohort_status save_state(cohort_strategy* s) {
  return after(s, s->below->vt->save_state(s->below), "save_state");
}

static const cohort_strategy_vt kSlots = {.struct_size = sizeof kSlots,
                                          .create = create,
                                          .destroy = destroy,
                                          .plan_buckets = plan_buckets,
                                          .layout_ready = layout_ready,
                                          .begin_step = begin_step,
                                          .reduce_bucket = reduce_bucket,
                                          .end_backward = end_backward,
                                          .optimizer_step = optimizer_step,
                                          .end_step = end_step,
                                          .save_state = save_state};

static const cohort_option kOptions[] = {{"in", "string", "", "slot that fails", NULL, 0, 0},
                                         {"at", "int", "0", "step in which it fails", NULL, 0, 0}};

static const cohort_component kComponent = {.struct_size = sizeof kComponent,
                                            .kind = COHORT_KIND_STRATEGY,
                                            .name = "failing",
                                            .summary = "fails in one slot",
                                            .inherits = "*",
                                            .options = kOptions,
                                            .num_options = 2,
                                            .vtable = &kSlots};
static const cohort_component* const kComponents[] = {&kComponent, 0};

const cohort_plugin cohort_plugin_0 = {.magic = COHORT_PLUGIN_MAGIC,
                                       .struct_size = sizeof(cohort_plugin),
                                       .abi_built = COHORT_ABI_VERSION,
                                       .abi_required = COHORT_RUNS_ON_ABI,
                                       .id = "org.example.failing",
                                       .version = "1.0.0",
                                       .vendor = "Example",
                                       .license = "MIT",
                                       .components = kComponents};
