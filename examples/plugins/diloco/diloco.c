/* DiLoCo (Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023, algorithm 1) as
 * a strategy over ddp, in C and with the headers of plugin_api alone.
 *
 * Ranks train alone. Every `every` steps of the optimizer (the inner steps) they make one outer step together, from the
 * anchor, which is what all of them had after the last one:
 *
 *   g = mean over ranks of (anchor - weights)            the outer gradient
 *   v = outer_momentum v + g                             Nesterov's momentum, as torch.optim.SGD computes it
 *   anchor = anchor - outer_lr (g + outer_momentum v)    weights = anchor
 *
 * Anchor and v are STATE in float32 (float64 if the model has float64 weights), whatever the weights are. They are
 * equal on all ranks, so they are SHARED: a checkpoint holds them once, and another number of ranks goes on from it
 * with the means of the weights and of the inner optimizers' state. The mean of the weights leaves the next outer
 * gradient as it is.
 *
 * Outer steps are counted by step->step, which is equal on all ranks and goes on after a checkpoint. Each optimizer of
 * a model with several has its own count, and its own parameters meet. Evaluations and checkpoints see each rank's own
 * weights and change none. At the end of training all ranks get the mean of their weights, which is no outer step:
 * training that goes on makes the same next one.
 */
#include <cohort/api/cohort.h>
#include <stdlib.h>
#include <string.h>

#define ANCHOR "anchor"
#define MOMENTUM "momentum"
#define GRADIENT "gradient"    /* the outer one; its values matter within an outer step only */
#define ANCHORED "anchored"    /* in checkpoints: one byte for each parameter, 1: it has an anchor */
#define CHUNK ((uint64_t)1024) /* elements that are computed together, in double */

typedef struct diloco {
  int64_t every;
  double lr, momentum;
  int32_t dtype;           /* of the STATE */
  unsigned char* anchored; /* [num_params] */
  uint32_t num_params;
} diloco;

static const cohort_buckets_1* buckets_of(const cohort_strategy* s) {
  return s->host->get_interface(s->host, COHORT_BUCKETS_ID);
}
static const cohort_params_1* params_of(const cohort_strategy* s) {
  return s->host->get_interface(s->host, COHORT_PARAMS_ID);
}
static const cohort_archive_1* archive_of(const cohort_strategy* s) {
  return s->host->get_interface(s->host, COHORT_ARCHIVE_ID);
}

/* ---- Elements of any type as doubles. */

typedef struct elements {
  void* data;
  int32_t dtype;
} elements;

/* Rounds to nearest, ties to even. */
static uint16_t bfloat16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float float_of(uint16_t bfloat16) {
  const uint32_t bits = (uint32_t)bfloat16 << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Returns the value that an element of this type takes when it is set to `value`. */
static double rounded(int32_t dtype, double value) {
  if (dtype == COHORT_FLOAT64) return value;
  return dtype == COHORT_BFLOAT16 ? float_of(bfloat16_of((float)value)) : (float)value;
}

static void load(elements from, uint64_t first, uint64_t n, double* to) {
  switch (from.dtype) {
    case COHORT_FLOAT64:
      memcpy(to, (const double*)from.data + first, n * sizeof *to);
      break;
    case COHORT_BFLOAT16:
      for (uint64_t i = 0; i < n; ++i) to[i] = float_of(((const uint16_t*)from.data)[first + i]);
      break;
    default:
      for (uint64_t i = 0; i < n; ++i) to[i] = ((const float*)from.data)[first + i];
  }
}

static void store(elements to, uint64_t first, uint64_t n, const double* from) {
  switch (to.dtype) {
    case COHORT_FLOAT64:
      memcpy((double*)to.data + first, from, n * sizeof *from);
      break;
    case COHORT_BFLOAT16:
      for (uint64_t i = 0; i < n; ++i) ((uint16_t*)to.data)[first + i] = bfloat16_of((float)from[i]);
      break;
    default:
      for (uint64_t i = 0; i < n; ++i) ((float*)to.data)[first + i] = (float)from[i];
  }
}

static cohort_status view(const cohort_strategy* s, const cohort_bucket* bucket, int32_t kind, const char* name,
                          elements* found) {
  cohort_tensor tensor;
  const cohort_status status = buckets_of(s)->view(s->host, bucket->index, kind, name, &tensor);
  if (status == COHORT_OK) *found = (elements){tensor.data, tensor.dtype};
  return status;
}

static cohort_status mean_over_ranks(const cohort_strategy* s, elements values, const cohort_bucket* bucket) {
  const cohort_comm_1* comm = s->host->get_interface(s->host, COHORT_COMM_ID);
  const cohort_op_args args = {.struct_size = sizeof args,
                               .dtype = values.dtype,
                               .reduce = COHORT_REDUCE_MEAN,
                               .input = values.data,
                               .output = values.data,
                               .count = bucket->numel,
                               .stream = {NULL, COHORT_DEVICE_CPU, 0}};
  return comm->all_reduce(s->host, comm->get(s->host, bucket->role), &args);
}

/* ---- The outer step of one bucket. */

typedef struct round {
  elements weights, anchor, momentum, gradient;
} round_t;

static cohort_status view_round(const cohort_strategy* s, const cohort_bucket* bucket, round_t* r) {
  cohort_status status = view(s, bucket, COHORT_BUCKET_WEIGHT, NULL, &r->weights);
  if (status == COHORT_OK) status = view(s, bucket, COHORT_BUCKET_STATE, ANCHOR, &r->anchor);
  if (status == COHORT_OK) status = view(s, bucket, COHORT_BUCKET_STATE, MOMENTUM, &r->momentum);
  if (status == COHORT_OK) status = view(s, bucket, COHORT_BUCKET_STATE, GRADIENT, &r->gradient);
  return status;
}

static uint64_t chunk_at(const cohort_bucket* bucket, uint64_t first) {
  return bucket->numel - first < CHUNK ? bucket->numel - first : CHUNK;
}

/* Inner steps have begun at the anchor as weights of their type can hold it. */
static void write_own_gradient(const round_t* r, const cohort_bucket* bucket) {
  double anchor[CHUNK], weights[CHUNK];
  for (uint64_t first = 0; first < bucket->numel; first += CHUNK) {
    const uint64_t n = chunk_at(bucket, first);
    load(r->anchor, first, n, anchor);
    load(r->weights, first, n, weights);
    for (uint64_t i = 0; i < n; ++i) anchor[i] = rounded(r->weights.dtype, anchor[i]) - weights[i];
    store(r->gradient, first, n, anchor);
  }
}

static void move_anchor(const diloco* own, const round_t* r, const cohort_bucket* bucket) {
  double anchor[CHUNK], momentum[CHUNK], gradient[CHUNK];
  for (uint64_t first = 0; first < bucket->numel; first += CHUNK) {
    const uint64_t n = chunk_at(bucket, first);
    load(r->anchor, first, n, anchor);
    load(r->momentum, first, n, momentum);
    load(r->gradient, first, n, gradient);
    for (uint64_t i = 0; i < n; ++i) {
      momentum[i] = own->momentum * momentum[i] + gradient[i];
      anchor[i] = rounded(own->dtype, anchor[i] - own->lr * (gradient[i] + own->momentum * momentum[i]));
    }
    store(r->anchor, first, n, anchor);
    store(r->momentum, first, n, momentum);
    store(r->weights, first, n, anchor);
  }
}

static cohort_status outer_step(const cohort_strategy* s, const cohort_bucket* bucket) {
  round_t r;
  cohort_status status = view_round(s, bucket, &r);
  if (status != COHORT_OK) return status;
  write_own_gradient(&r, bucket);
  status = mean_over_ranks(s, r.gradient, bucket);
  if (status == COHORT_OK) move_anchor(s->data, &r, bucket);
  return status;
}

/* ---- Slots. */

static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* options, uint64_t count) {
  diloco* own = calloc(1, sizeof *own);
  (void)variant;
  if (!own) return COHORT_RESOURCE_EXHAUSTED;
  for (uint64_t i = 0; i < count; ++i) {
    if (!strcmp(options[i].key, "every")) cohort_read_int(options[i].value, &own->every);
    if (!strcmp(options[i].key, "outer_lr")) cohort_read_float(options[i].value, &own->lr);
    if (!strcmp(options[i].key, "outer_momentum")) cohort_read_float(options[i].value, &own->momentum);
  }
  s->data = own;
  return COHORT_OK;
}

static void destroy(cohort_strategy* s) {
  diloco* own = s->data;
  free(own->anchored);
  free(own);
}

static cohort_status configure_model(cohort_strategy* s) {
  diloco* own = s->data;
  const cohort_status status = s->below->vt->configure_model(s->below);
  if (status != COHORT_OK) return status;
  free(own->anchored); /* of an earlier training */
  own->num_params = params_of(s)->count(s->host);
  own->anchored = calloc(own->num_params + 1, 1);
  if (!own->anchored) return COHORT_RESOURCE_EXHAUSTED;
  own->dtype = COHORT_FLOAT32;
  for (uint32_t i = 0; i < own->num_params; ++i) {
    cohort_tensor weight;
    if (params_of(s)->get(s->host, i, &weight) != COHORT_OK) return COHORT_INTERNAL;
    if (weight.dtype == COHORT_FLOAT64) own->dtype = COHORT_FLOAT64;
    if (weight.dtype == COHORT_FLOAT16) {
      return s->host->fail(s->host, COHORT_INVALID_ARGUMENT,
                           "diloco cannot compute with float16 weights; train in bfloat16 or float32");
    }
  }
  return COHORT_OK;
}

/* Gradients stay where backward makes them: nothing is sent in an inner step. */
static cohort_status plan_buckets(cohort_strategy* s, cohort_bucket_plan* plan) {
  const cohort_buckets_1* buckets = buckets_of(s);
  const int32_t dtype = ((const diloco*)s->data)->dtype;
  cohort_status status = s->below->vt->plan_buckets(s->below, plan);
  if (status == COHORT_OK) status = buckets->drop(s->host, COHORT_BUCKET_GRAD);
  if (status == COHORT_OK) status = buckets->want(s->host, COHORT_BUCKET_WEIGHT, NULL, 0, 0);
  if (status == COHORT_OK) status = buckets->want(s->host, COHORT_BUCKET_STATE, ANCHOR, dtype, COHORT_STATE_SHARED);
  if (status == COHORT_OK) status = buckets->want(s->host, COHORT_BUCKET_STATE, MOMENTUM, dtype, COHORT_STATE_SHARED);
  if (status == COHORT_OK) status = buckets->want(s->host, COHORT_BUCKET_STATE, GRADIENT, dtype, COHORT_STATE_SCRATCH);
  return status;
}

/* Anchors what has no anchor yet: everything when training begins or comes from a checkpoint without this layer, and
 * later a parameter that was frozen until now, which all ranks have equal. */
static cohort_status layout_ready(cohort_strategy* s, int32_t reason) {
  diloco* own = s->data;
  cohort_status status = s->below->vt->layout_ready(s->below, reason);
  for (uint32_t index = 0; status == COHORT_OK && index < buckets_of(s)->count(s->host); ++index) {
    const cohort_bucket* bucket = buckets_of(s)->get(s->host, index);
    round_t r;
    status = view_round(s, bucket, &r);
    for (uint64_t p = 0; status == COHORT_OK && p < bucket->num_parts; ++p) {
      const cohort_bucket_part* part = &bucket->parts[p];
      if (own->anchored[part->id]) continue;
      own->anchored[part->id] = 1;
      for (uint64_t i = part->offset; i < part->offset + part->numel; ++i) {
        double weight;
        load(r.weights, i, 1, &weight);
        store(r.anchor, i, 1, &weight);
      }
    }
  }
  return status;
}

static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  const diloco* own = s->data;
  cohort_status status = s->below->vt->end_step(s->below, step);
  if ((step->step + 1) % (uint64_t)own->every != 0) return status;
  for (uint32_t index = 0; status == COHORT_OK && index < buckets_of(s)->count(s->host); ++index) {
    const cohort_bucket* bucket = buckets_of(s)->get(s->host, index);
    if (bucket->phase == step->phase) status = outer_step(s, bucket);
  }
  return status;
}

static cohort_status pause(cohort_strategy* s, int32_t reason) {
  cohort_status status = s->below->vt->pause(s->below, reason);
  if (reason != COHORT_PAUSE_END) return status;
  for (uint32_t index = 0; status == COHORT_OK && index < buckets_of(s)->count(s->host); ++index) {
    const cohort_bucket* bucket = buckets_of(s)->get(s->host, index);
    elements weights;
    status = view(s, bucket, COHORT_BUCKET_WEIGHT, NULL, &weights);
    if (status == COHORT_OK) status = mean_over_ranks(s, weights, bucket);
  }
  return status;
}

static cohort_status save_state(cohort_strategy* s) {
  const diloco* own = s->data;
  const cohort_status status = s->below->vt->save_state(s->below);
  if (status != COHORT_OK) return status;
  return archive_of(s)->set(s->host, ANCHORED, COHORT_ARCHIVE_SHARED, own->anchored, own->num_params);
}

static cohort_status load_state(cohort_strategy* s) {
  diloco* own = s->data;
  uint64_t nbytes = 0;
  cohort_status status = s->below->vt->load_state(s->below);
  if (status != COHORT_OK) return status;
  memset(own->anchored, 0, own->num_params);
  status = archive_of(s)->get(s->host, ANCHORED, own->anchored, own->num_params, &nbytes);
  if (status == COHORT_NOT_FOUND) return COHORT_OK;
  if (status == COHORT_OK && nbytes == own->num_params) return COHORT_OK;
  return s->host->fail(s->host, COHORT_DATA_LOSS, "diloco: the checkpoint is of a model with other parameters");
}

static void supports(const cohort_host* host, cohort_query* query) {
  (void)host;
  query->answer = COHORT_ANSWER_NO;
  if (query->use == COHORT_USE_DEVICE_TYPE && query->value != COHORT_DEVICE_CPU) {
    query->why = "it computes outer steps in the CPU's memory";
    query->fix = "choose --accelerator=cpu";
  } else if (query->use == COHORT_USE_GRAPH) {
    query->why = "outer steps are no part of a captured step";
    query->fix = "train without captured graphs";
  } else if (query->use == COHORT_USE_JOIN) {
    query->why = "a rank without data would miss an outer step";
    query->fix = "give all ranks equally many batches";
  } else if (query->use == COHORT_USE_EQUAL_RANKS) {
    query->why = "ranks train alone between outer steps";
    query->fix = "choose --strategy=ddp";
  } else if (query->use == COHORT_USE_LOSS_SCALER) {
    query->answer = COHORT_ANSWER_YES; /* skipped steps count as steps on all ranks */
  } else {
    query->answer = COHORT_ANSWER_UNKNOWN;
  }
}

static const cohort_option kOptions[] = {
    {"every", "int[1..1000000000]", "500", "inner steps from one outer step to the next", NULL, 0, 0},
    {"outer_lr", "float[0..100]", "0.7", "learning rate of outer steps", NULL, 0, 0},
    {"outer_momentum", "float[0..1]", "0.9", "Nesterov's momentum of outer steps", NULL, 0, 0},
    {"compression", "enum(none)", "none", "ddp's, for gradients, which ranks do not send here", NULL, 0, 0},
};

static const cohort_strategy_vt kSlots = {
    .struct_size = sizeof(cohort_strategy_vt),
    .create = create,
    .destroy = destroy,
    .configure_model = configure_model,
    .plan_buckets = plan_buckets,
    .layout_ready = layout_ready,
    .end_step = end_step,
    .pause = pause,
    .save_state = save_state,
    .load_state = load_state,
};

static const cohort_component kComponent = {
    .struct_size = sizeof(cohort_component),
    .kind = COHORT_KIND_STRATEGY,
    .name = "diloco",
    .summary = "ranks train alone and make an outer step together now and then",
    .inherits = "ddp",
    .options = kOptions,
    .num_options = sizeof kOptions / sizeof kOptions[0],
    .vtable = &kSlots,
    .supports = supports,
};

static const cohort_component* const kComponents[] = {&kComponent, NULL};

COHORT_EXPORT const cohort_plugin cohort_plugin_0 = {
    .magic = COHORT_PLUGIN_MAGIC,
    .struct_size = sizeof(cohort_plugin),
    .abi_built = COHORT_ABI_VERSION,
    .abi_required = COHORT_RUNS_ON_ABI,
    .id = "org.example.diloco",
    .version = "1.0.0",
    .vendor = "Example",
    .license = "MIT",
    .components = kComponents,
};
