/* A free layer that scales gradients after the inherited reduction and asks the services what they know. */
#include <cohort/api/cohort.h>

static cohort_status reduce_bucket(cohort_strategy* s, const cohort_step* step, const cohort_bucket* bucket) {
  const cohort_buckets_1* buckets = s->host->get_interface(s->host, COHORT_BUCKETS_ID);
  cohort_tensor view;
  const cohort_status status = s->below->vt->reduce_bucket(s->below, step, bucket);
  if (status != COHORT_OK) return status;
  if (buckets->view(s->host, bucket->index, COHORT_BUCKET_GRAD, 0, &view) != COHORT_OK) return COHORT_INTERNAL;
  float* values = view.data;
  for (uint64_t i = 0; i < bucket->numel; ++i) values[i] *= 10.0f;
  return COHORT_OK;
}

static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  const cohort_params_1* params = s->host->get_interface(s->host, COHORT_PARAMS_ID);
  if (params->count(s->host) != 2) return s->host->fail(s->host, COHORT_INTERNAL, "expected two parameters");
  if (s->host->get_interface(s->host, "cohort.nothing/1")) return COHORT_INTERNAL;
  if (step->step == 2) return s->host->fail(s->host, COHORT_DATA_LOSS, "the third step is one too many");
  return s->below->vt->end_step(s->below, step);
}

static const cohort_strategy_vt vtable = {
    .struct_size = sizeof vtable, .reduce_bucket = reduce_bucket, .end_step = end_step};

static const cohort_component component = {.struct_size = sizeof component,
                                           .kind = COHORT_KIND_STRATEGY,
                                           .name = "counting",
                                           .summary = "scales gradients by ten",
                                           .inherits = "*",
                                           .vtable = &vtable};
static const cohort_component* const components[] = {&component, 0};

const cohort_plugin cohort_plugin_0 = {.magic = COHORT_PLUGIN_MAGIC,
                                       .struct_size = sizeof(cohort_plugin),
                                       .abi_built = COHORT_ABI_VERSION,
                                       .abi_required = COHORT_RUNS_ON_ABI,
                                       .id = "org.example.counting",
                                       .version = "1.0.0",
                                       .vendor = "Example",
                                       .license = "MIT",
                                       .components = components};
