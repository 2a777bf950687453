/* A free layer that keeps the sum of FACTOR times each mean gradient in STATE "sum" and steps with it. It asks for
 * another layout in each step. Built twice, as LAYER with 1 and with 2: both use the same names. */
#include <string.h>

#include <cohort/api/cohort.h>

static const cohort_buckets_1* buckets_of(const cohort_strategy* s) {
  return s->host->get_interface(s->host, COHORT_BUCKETS_ID);
}

static float* values_of(const cohort_strategy* s, uint32_t bucket, int32_t kind, const char* name) {
  cohort_tensor view;
  return buckets_of(s)->view(s->host, bucket, kind, name, &view) == COHORT_OK ? view.data : 0;
}

static cohort_status plan_buckets(cohort_strategy* s, cohort_bucket_plan* plan) {
  const cohort_status status = s->below->vt->plan_buckets(s->below, plan);
  if (status != COHORT_OK) return status;
  buckets_of(s)->want(s->host, COHORT_BUCKET_GRAD, 0, 0, 0); /* with one rank base wants none */
  buckets_of(s)->want(s->host, COHORT_BUCKET_WEIGHT, 0, 0, 0);
  return buckets_of(s)->want(s->host, COHORT_BUCKET_STATE, "sum", 0, COHORT_STATE_SHARED);
}

static cohort_status reduce_bucket(cohort_strategy* s, const cohort_step* step, const cohort_bucket* bucket) {
  const cohort_status status = s->below->vt->reduce_bucket(s->below, step, bucket);
  const float* gradients = values_of(s, bucket->index, COHORT_BUCKET_GRAD, 0);
  float* sum = values_of(s, bucket->index, COHORT_BUCKET_STATE, "sum");
  if (status != COHORT_OK) return status;
  for (uint64_t i = 0; i < bucket->numel; ++i) sum[i] += FACTOR * gradients[i];
  return COHORT_OK;
}

static cohort_status optimizer_step(cohort_strategy* s, const cohort_step* step) {
  if (FACTOR == 2) {
    const cohort_status status = s->below->vt->optimizer_step(s->below, step);
    if (status != COHORT_OK) return status;
  }
  for (uint32_t index = 0; index < buckets_of(s)->count(s->host); ++index) {
    const cohort_bucket* bucket = buckets_of(s)->get(s->host, index);
    float* weights = values_of(s, index, COHORT_BUCKET_WEIGHT, 0);
    const float* sum = values_of(s, index, COHORT_BUCKET_STATE, "sum");
    for (uint64_t i = 0; i < bucket->numel; ++i) weights[i] -= sum[i];
  }
  return COHORT_OK;
}

static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  const cohort_status status = s->below->vt->end_step(s->below, step);
  return status != COHORT_OK ? status : buckets_of(s)->request_relayout(s->host);
}

static cohort_status save_state(cohort_strategy* s) {
  const cohort_archive_1* archive = s->host->get_interface(s->host, COHORT_ARCHIVE_ID);
  const cohort_comm_1* comm = s->host->get_interface(s->host, COHORT_COMM_ID);
  const int factor = FACTOR;
  const int32_t ranks = comm->get(s->host, COHORT_ROLE_WORLD)->size;
  const cohort_status status = s->below->vt->save_state(s->below);
  if (archive->saved_world_size(s->host) != 0 || archive->saved_version(s->host)) return COHORT_INTERNAL;
  if (status != COHORT_OK) return status;
  archive->set(s->host, "ranks", COHORT_ARCHIVE_SHARED, &ranks, sizeof ranks);
  return archive->set(s->host, "factor", COHORT_ARCHIVE_SHARED, &factor, sizeof factor);
}

static cohort_status load_state(cohort_strategy* s) {
  const cohort_archive_1* archive = s->host->get_interface(s->host, COHORT_ARCHIVE_ID);
  int factor = 0;
  int32_t ranks = 0;
  uint64_t nbytes = 0;
  cohort_status status = s->below->vt->load_state(s->below);
  if (status == COHORT_OK) status = archive->get(s->host, "factor", &factor, sizeof factor, &nbytes);
  if (status == COHORT_OK) status = archive->get(s->host, "ranks", &ranks, sizeof ranks, &nbytes);
  if (archive->saved_world_size(s->host) != ranks) return COHORT_INTERNAL;
  if (!archive->saved_version(s->host) || strcmp(archive->saved_version(s->host), "1.0.0") != 0) return COHORT_INTERNAL;
  return status == COHORT_OK && factor != FACTOR ? COHORT_DATA_LOSS : status;
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof vtable,
                                          .plan_buckets = plan_buckets,
                                          .reduce_bucket = reduce_bucket,
                                          .optimizer_step = optimizer_step,
                                          .end_step = end_step,
                                          .save_state = save_state,
                                          .load_state = load_state};

static const cohort_component component = {.struct_size = sizeof component,
                                           .kind = COHORT_KIND_STRATEGY,
                                           .name = LAYER,
                                           .summary = "steps with the sum of all mean gradients",
                                           .inherits = "*",
                                           .vtable = &vtable};
static const cohort_component* const components[] = {&component, 0};

const cohort_plugin cohort_plugin_0 = {.magic = COHORT_PLUGIN_MAGIC,
                                       .struct_size = sizeof(cohort_plugin),
                                       .abi_built = COHORT_ABI_VERSION,
                                       .abi_required = COHORT_ABI_VERSION,
                                       .id = "org.example." LAYER,
                                       .version = "1.0.0",
                                       .vendor = "Example",
                                       .license = "MIT",
                                       .components = components};
