/* A component for the tests of the selection; what it is comes from the command line of the compiler. */
#include <cohort/api/accelerator.h>
#include <cohort/api/collective.h>
#include <cohort/api/strategy.h>

#ifndef FAKE_DEVICE_TYPE
#define FAKE_DEVICE_TYPE COHORT_DEVICE_CPU
#endif

#if FAKE_KIND == COHORT_KIND_ACCELERATOR
static cohort_status device_count(cohort_accelerator* a, int32_t* count) {
  (void)a;
  *count = FAKE_DEVICES;
  return COHORT_OK;
}
#ifdef FAKE_PINNED
static cohort_status alloc_pinned(cohort_accelerator* a, uint64_t nbytes, void** memory) {
  (void)nbytes;
  (void)memory;
  return a->host->fail(a->host, COHORT_UNIMPLEMENTED, "a fake has no memory");
}
static void free_pinned(cohort_accelerator* a, void* memory) {
  (void)a;
  (void)memory;
}
static cohort_status copy(cohort_accelerator* a, void* to, const void* from, uint64_t nbytes, const cohort_stream* s) {
  (void)to;
  (void)from;
  (void)nbytes;
  (void)s;
  return a->host->fail(a->host, COHORT_UNIMPLEMENTED, "a fake has no memory");
}
static cohort_status wait_for(cohort_accelerator* a, const cohort_stream* stream) {
  (void)stream;
  return a->host->fail(a->host, COHORT_UNIMPLEMENTED, "a fake has no streams");
}
#endif
static const cohort_accelerator_vt vtable = {
    .struct_size = sizeof(cohort_accelerator_vt),
    .device_type = FAKE_DEVICE_TYPE,
    .torch_device_type = FAKE_NAME,
    .device_count = device_count,
#ifdef FAKE_PINNED
    .alloc_pinned = alloc_pinned,
    .free_pinned = free_pinned,
    .copy_to_host = copy,
    .copy_to_device = copy,
    .wait = wait_for,
#endif
};
#elif FAKE_KIND == COHORT_KIND_STRATEGY
static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt)};
#else
static cohort_status exchange(cohort_collective* c, cohort_comm* comm, const cohort_exchange_args* args) {
  (void)args;
  (void)comm;
  return c->host->fail(c->host, COHORT_UNIMPLEMENTED, "a fake connects nothing");
}
static cohort_status connect(cohort_collective* c, const cohort_connect_args* args, cohort_comm* comm) {
  (void)args;
  (void)comm;
  return c->host->fail(c->host, COHORT_UNIMPLEMENTED, "a fake connects nothing");
}
static const cohort_collective_vt vtable = {
    .struct_size = sizeof(cohort_collective_vt), .connect = connect, .exchange = exchange};
#endif

/* FAKE_REFUSES: {use, first value that is refused}, ... */
#ifndef FAKE_REFUSES
#define FAKE_REFUSES \
  { 0, 0 }
#endif
#ifndef FAKE_MAX_NODES
#define FAKE_MAX_NODES 1000
#endif
#ifndef FAKE_MUTE
static void supports(const cohort_host* host, cohort_query* query) {
  static const int64_t refused[][2] = {FAKE_REFUSES};
  size_t i;
  (void)host;
  for (i = 0; i < sizeof refused / sizeof *refused; ++i) {
    if (query->use != refused[i][0] || query->value < refused[i][1]) continue;
    query->answer = COHORT_ANSWER_NO;
    query->why = "a fake refuses it";
    query->fix = "choose another fake";
    return;
  }
#ifdef FAKE_UNNAMED
  if (query->use == COHORT_USE_UNNAMED) query->answer = COHORT_ANSWER_YES;
#endif
  if (query->use == COHORT_USE_NODES && query->value > FAKE_MAX_NODES) {
    query->answer = COHORT_ANSWER_NO;
    query->why = "it reaches too few nodes";
  } else if (query->use == COHORT_USE_DEVICE_TYPE && FAKE_KIND == COHORT_KIND_COLLECTIVE) {
    query->answer = query->value == FAKE_DEVICE_TYPE ? COHORT_ANSWER_YES : COHORT_ANSWER_NO;
    query->why = "it cannot move this memory";
  }
}
#endif

#ifdef FAKE_NESTED
static const cohort_option options[] = {{"over", "collective", "gloo", "a wire inside", NULL, 0, 0}};
#define FAKE_OPTIONS options
#define FAKE_NUM_OPTIONS 1
#elif FAKE_KIND != COHORT_KIND_ACCELERATOR
static const cohort_option options[] = {{"c", "int", "0", "for a table of the config file", NULL, 0, 0}};
#define FAKE_OPTIONS options
#define FAKE_NUM_OPTIONS 1
#else
#define FAKE_OPTIONS 0
#define FAKE_NUM_OPTIONS 0
#endif

static const cohort_component component = {
    .struct_size = sizeof(cohort_component),
    .kind = FAKE_KIND,
    .name = FAKE_NAME,
    .summary = "for tests of the selection",
#ifdef FAKE_LAYER
    .inherits = "*",
#endif
    .options = FAKE_OPTIONS,
    .num_options = FAKE_NUM_OPTIONS,
    .vtable = &vtable,
#ifndef FAKE_MUTE
    .supports = supports,
#endif
};
static const cohort_component* const components[] = {&component, 0};

COHORT_EXPORT const cohort_plugin cohort_plugin_0 = {
    .magic = COHORT_PLUGIN_MAGIC,
    .struct_size = sizeof(cohort_plugin),
    .abi_built = COHORT_ABI_VERSION,
    .abi_required = COHORT_RUNS_ON_ABI,
    .id = "org.cohort.test.selection",
    .version = "1.0.0",
    .vendor = "cohort",
    .license = "Apache-2.0",
    .components = components,
};
