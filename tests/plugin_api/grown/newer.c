/* A free layer of the grown headers, for today's host. Macros say what of the additions it uses:
 *
 *   FILLS_SLOT    the new slot of its table
 *   FILLS_FIELD   the new field of a cohort_op_args
 *   HAS_FLAG      a new flag of its table
 *   HAS_KIND      a further component, of a new kind
 *   HAS_OPTION    an option of a type that today's host does not know
 */
#include <cohort/api/cohort.h>

/* A service that the host lacks is no reason to fail. */
static cohort_status check_job(const cohort_strategy* s) {
  if (s->host->get_interface(s->host, COHORT_GROWN_ID))
    return s->host->fail(s->host, COHORT_INTERNAL, "newer: the host has a service that it does not know");
  const cohort_job_1* job = s->host->get_interface(s->host, COHORT_JOB_ID);
  cohort_job_info info = {.struct_size = sizeof info};
  return job->get(s->host, &info);
}

static cohort_status configure_model(cohort_strategy* s) {
  cohort_status status = s->below->vt->configure_model(s->below);
  if (status == COHORT_OK) status = check_job(s);
  if (status != COHORT_OK) return status;
  const cohort_comm_1* comms = s->host->get_interface(s->host, COHORT_COMM_ID);
  double value = 1;
  cohort_op_args args = {.struct_size = sizeof args,
                         .dtype = COHORT_FLOAT64,
                         .reduce = COHORT_REDUCE_MAX,
                         .input = &value,
                         .output = &value,
                         .count = 1,
                         .stream = {NULL, COHORT_DEVICE_CPU, 0}};
#ifdef FILLS_FIELD
  args.grown = 1;
#endif
  return comms->all_reduce(s->host, comms->get(s->host, COHORT_ROLE_WORLD), &args);
}

#ifdef FILLS_SLOT
/* Only a host that has the slot calls it, and gives it to the layers below. */
static cohort_status grown(cohort_strategy* s) {
  const cohort_metrics_1* metrics = s->host->get_interface(s->host, COHORT_METRICS_ID);
  const cohort_status status = metrics->set(s->host, "new_slot_called", 1);
  return status == COHORT_OK ? s->below->vt->grown(s->below) : status;
}
#endif

static void supports(const cohort_host* host, cohort_query* query) {
  (void)host;
  if (query->use == COHORT_USE_GROWN) query->answer = COHORT_ANSWER_UNKNOWN;
}

static const cohort_strategy_vt kTable = {
    .struct_size = sizeof(cohort_strategy_vt),
    .configure_model = configure_model,
#ifdef FILLS_SLOT
    .grown = grown,
#endif
#ifdef HAS_FLAG
    .flags = COHORT_STRATEGY_GROWN,
#endif
};

#ifdef HAS_OPTION
static const cohort_option kOptions[] = {{.key = "matrix", .type = "matrix", .default_value = "1", .help = "numbers"}};
#endif

static const cohort_component kComponent = {
    .struct_size = sizeof(cohort_component),
    .kind = COHORT_KIND_STRATEGY,
    .name = "newer",
    .summary = "uses additions of later headers",
    .inherits = "*",
#ifdef HAS_OPTION
    .options = kOptions,
    .num_options = 1,
#endif
    .vtable = &kTable,
    .supports = supports,
};

#ifdef HAS_KIND
static const cohort_component kOther = {
    .struct_size = sizeof(cohort_component),
    .kind = COHORT_KIND_GROWN,
    .name = "newer",
    .summary = "of a kind that today's host does not know",
    .vtable = &kTable,
};
#endif

static const cohort_component* const kComponents[] = {&kComponent,
#ifdef HAS_KIND
                                                      &kOther,
#endif
                                                      NULL};

COHORT_EXPORT const cohort_plugin cohort_plugin_0 = {
    .magic = COHORT_PLUGIN_MAGIC,
    .struct_size = sizeof(cohort_plugin),
    .abi_built = COHORT_ABI_VERSION,
    .abi_required = COHORT_RUNS_ON_ABI,
    .id = "org.cohort.newer",
    .version = "1.0.0",
    .components = kComponents,
};
