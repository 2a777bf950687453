/* A free layer of today's headers that puts 0xff behind each struct that it hands to the host: a host that reads
 * further than struct_size finds these bytes, and one that writes further changes them. */
#include <cohort/api/cohort.h>
#include <string.h>

#define BEHIND 64
#define FILLED \
  { [0 ... BEHIND - 1] = 0xff }
/* An object of the type with bytes behind it. */
#define LONG(type)                \
  struct {                        \
    type own;                     \
    unsigned char behind[BEHIND]; \
  }

static int is_unchanged(const unsigned char* behind) {
  for (int i = 0; i < BEHIND; ++i) {
    if (behind[i] != 0xff) return 0;
  }
  return 1;
}

static cohort_status refuse(const cohort_strategy* s, const char* message) {
  return s->host->fail(s->host, COHORT_INTERNAL, message);
}

/* Sums 1 over a group of this layer's own. */
static cohort_status use_own_group(cohort_strategy* s, int32_t rank, int32_t size) {
  const cohort_comm_1* comms = s->host->get_interface(s->host, COHORT_COMM_ID);
  LONG(cohort_connect_args) group = {.behind = FILLED};
  group.own.struct_size = sizeof group.own;
  group.own.rank = rank;
  group.own.size = size;
  group.own.device_type = COHORT_DEVICE_CPU;
  group.own.timeout_ns = 120000000000;
  group.own.name = "long_objects";
  group.own.num_nodes = 1;
  cohort_comm* comm = NULL;
  cohort_status status = comms->open(s->host, NULL, &group.own, &comm);
  if (status != COHORT_OK) return status;

  double sum = 1, copy = 0;
  LONG(cohort_op_args) args = {.behind = FILLED};
  args.own = (cohort_op_args){.struct_size = sizeof args.own,
                              .dtype = COHORT_FLOAT64,
                              .reduce = COHORT_REDUCE_SUM,
                              .input = &sum,
                              .output = &sum,
                              .count = 1,
                              .stream = {NULL, COHORT_DEVICE_CPU, 0}};
  status = comms->all_reduce(s->host, comm, &args.own);
  if (status != COHORT_OK) return status;
  const cohort_message messages[] = {{&sum, sizeof sum, rank, 1}, {&copy, sizeof copy, rank, 0}};
  LONG(cohort_exchange_args) exchange = {.behind = FILLED};
  exchange.own = (cohort_exchange_args){.struct_size = sizeof exchange.own,
                                        .messages = messages,
                                        .num_messages = 2,
                                        .stream = {NULL, COHORT_DEVICE_CPU, 0}};
  status = comms->exchange(s->host, comm, &exchange.own);
  if (status != COHORT_OK) return status;
  return copy == size ? COHORT_OK : refuse(s, "long_objects: a sum over its group is wrong");
}

static cohort_status configure_model(cohort_strategy* s) {
  const cohort_status status = s->below->vt->configure_model(s->below);
  if (status != COHORT_OK) return status;
  const cohort_job_1* job = s->host->get_interface(s->host, COHORT_JOB_ID);
  LONG(cohort_job_info) info = {.behind = FILLED};
  info.own.struct_size = sizeof info.own;
  const cohort_status known = job->get(s->host, &info.own);
  if (known != COHORT_OK) return known;
  if (!is_unchanged(info.behind) || info.own.struct_size != sizeof info.own)
    return refuse(s, "long_objects: the host has written behind a cohort_job_info");
  if (s->data) return COHORT_OK; /* the group of an earlier training is still there */
  s->data = s;
  return use_own_group(s, info.own.rank, info.own.world_size);
}

static cohort_status clip_gradients(cohort_strategy* s, const cohort_step* step, const cohort_clip_args* args) {
  LONG(cohort_clip_args) changed = {.behind = FILLED};
  memcpy(&changed.own, args, sizeof changed.own);
  changed.own.struct_size = sizeof changed.own;
  return s->below->vt->clip_gradients(s->below, step, &changed.own);
}

static const LONG(cohort_strategy_vt) kTable = {
    .own = {.struct_size = sizeof(cohort_strategy_vt),
            .configure_model = configure_model,
            .clip_gradients = clip_gradients},
    .behind = FILLED,
};

static const LONG(cohort_component) kComponent = {
    .own = {.struct_size = sizeof(cohort_component),
            .kind = COHORT_KIND_STRATEGY,
            .name = "long_objects",
            .summary = "has bytes behind its structs",
            .inherits = "*",
            .vtable = &kTable.own},
    .behind = FILLED,
};

/* An accelerator without a kernel of its own. */
static cohort_status device_count(cohort_accelerator* a, int32_t* count) {
  (void)a;
  *count = 1;
  return COHORT_OK;
}

static const LONG(cohort_kernels_core_1) kKernels = {.own = {.struct_size = sizeof(cohort_kernels_core_1)},
                                                     .behind = FILLED};

static const void* kernels(cohort_accelerator* a, const char* id) {
  (void)a;
  return strcmp(id, COHORT_KERNELS_CORE_ID) == 0 ? &kKernels.own : NULL;
}

static const LONG(cohort_accelerator_vt) kDevices = {
    .own = {.struct_size = sizeof(cohort_accelerator_vt),
            .device_type = COHORT_DEVICE_CPU,
            .device_count = device_count,
            .kernels = kernels},
    .behind = FILLED,
};

static const LONG(cohort_component) kAccelerator = {
    .own = {.struct_size = sizeof(cohort_component),
            .kind = COHORT_KIND_ACCELERATOR,
            .name = "long_objects",
            .summary = "has no kernels",
            .vtable = &kDevices.own},
    .behind = FILLED,
};

static const cohort_component* const kComponents[] = {&kComponent.own, &kAccelerator.own, NULL};

COHORT_EXPORT const cohort_plugin cohort_plugin_0 = {
    .magic = COHORT_PLUGIN_MAGIC,
    .struct_size = sizeof(cohort_plugin),
    .abi_built = COHORT_ABI_VERSION,
    .abi_required = COHORT_RUNS_ON_ABI,
    .id = "org.cohort.long_objects",
    .version = "1.0.0",
    .components = kComponents,
};
