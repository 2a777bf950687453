/* A free layer that makes one mistake, which its option `case` names, and is right in all else. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_plugin.h"

typedef struct broken {
  char mistake[32];
  int32_t rank;
  uint32_t lane;
} broken;

#define SERVICE(ID, TYPE) ((const TYPE*)s->host->get_interface(s->host, ID))
#define BUCKETS SERVICE(COHORT_BUCKETS_ID, cohort_buckets_1)
#define COMM SERVICE(COHORT_COMM_ID, cohort_comm_1)
#define LANES SERVICE(COHORT_LANE_ID, cohort_lane_1)
#define OPTIMIZERS SERVICE(COHORT_OPTIMIZER_ID, cohort_optimizer_1)
#define PARAMETERS SERVICE(COHORT_PARAMS_ID, cohort_params_1)

static int makes(const cohort_strategy* s, const char* mistake) {
  return strcmp(((const broken*)s->data)->mistake, mistake) == 0;
}

/* ---- wrong calls of services */

static cohort_status unknown_kind(cohort_strategy* s) {
  return BUCKETS->want(s->host, 1 << 20, NULL, 0, 0);
}
static cohort_status state_without_name(cohort_strategy* s) {
  return BUCKETS->want(s->host, COHORT_BUCKET_STATE, NULL, 0, 0);
}
static cohort_status state_of_two_types(cohort_strategy* s) {
  const cohort_status status = BUCKETS->want(s->host, COHORT_BUCKET_STATE, "memory", COHORT_FLOAT32, 0);
  return status != COHORT_OK ? status : BUCKETS->want(s->host, COHORT_BUCKET_STATE, "memory", COHORT_FLOAT64, 0);
}
static cohort_status view_of_nothing(cohort_strategy* s) {
  cohort_tensor view;
  return BUCKETS->view(s->host, 0, COHORT_BUCKET_STATE, "no_such_state", &view);
}

static cohort_status no_communicator(cohort_strategy* s) {
  return COMM->barrier(s->host, NULL);
}
static cohort_status unknown_root(cohort_strategy* s) {
  float value = 1;
  cohort_op_args args = {.struct_size = sizeof args, .dtype = COHORT_FLOAT32, .root = 99, .count = 1};
  args.input = args.output = &value;
  return COMM->broadcast(s->host, COMM->get(s->host, COHORT_ROLE_WORLD), &args);
}
static cohort_status no_memory(cohort_strategy* s) {
  cohort_op_args args = {.struct_size = sizeof args, .dtype = COHORT_FLOAT32, .reduce = COHORT_REDUCE_SUM, .count = 1};
  return COMM->all_reduce(s->host, COMM->get(s->host, COHORT_ROLE_WORLD), &args);
}

static cohort_status unknown_optimizer(cohort_strategy* s) {
  return OPTIMIZERS->step(s->host, 7, NULL, 0);
}
static cohort_status unknown_parameter(cohort_strategy* s) {
  double value;
  return OPTIMIZERS->hyper(s->host, 12345, "lr", &value);
}
static cohort_status weight_of_nothing(cohort_strategy* s) {
  cohort_tensor weight;
  return PARAMETERS->get(s->host, 12345, &weight);
}
static cohort_status foreign_memory(cohort_strategy* s) {
  return SERVICE(COHORT_MEMORY_ID, cohort_memory_1)->release(s->host, s->data);
}

/* ---- wrong calls of lanes */

static cohort_status crash(void* arg) {
  (void)arg;
  abort();
}
static cohort_status step_optimizer(void* arg) {
  cohort_strategy* s = arg;
  return OPTIMIZERS->step(s->host, 0, NULL, 0);
}
static cohort_status run_on_lane(cohort_strategy* s, cohort_lane_task task) {
  const uint32_t lane = ((broken*)s->data)->lane;
  uint64_t ticket = 0;
  const cohort_status status = LANES->submit(s->host, lane, task, s, &ticket);
  return status != COHORT_OK ? status : LANES->wait(s->host, lane, ticket, -1, NULL);
}
static cohort_status crash_on_lane(cohort_strategy* s) {
  return run_on_lane(s, crash);
}
static cohort_status step_on_lane(cohort_strategy* s) {
  return run_on_lane(s, step_optimizer);
}
static cohort_status unknown_lane(cohort_strategy* s) {
  uint64_t ticket;
  return LANES->submit(s->host, 9, crash, s, &ticket);
}
static cohort_status lane_in_step(cohort_strategy* s) {
  return LANES->create(s->host, "late", &((broken*)s->data)->lane);
}
static cohort_status unknown_ticket(cohort_strategy* s) {
  return LANES->wait(s->host, 0, 1000000, -1, NULL);
}

/* ---- answers that are none */

static cohort_status odd_code(cohort_strategy* s) {
  (void)s;
  return 4711;
}
static cohort_status negative_code(cohort_strategy* s) {
  (void)s;
  return -7;
}
static cohort_status control_characters(cohort_strategy* s) {
  return s->host->fail(s->host, COHORT_INTERNAL, "\x1b[31mred\r\n\x07 second line");
}
static cohort_status long_message(cohort_strategy* s) {
  char words[6001];
  memset(words, 'x', sizeof words - 1);
  words[sizeof words - 1] = 0;
  return s->host->fail(s->host, COHORT_INTERNAL, words);
}

/* ---- what rank 0 or 1 does alone */

static cohort_status barrier_alone(cohort_strategy* s) {
  if (((const broken*)s->data)->rank != 0) return COHORT_OK;
  return COMM->barrier(s->host, COMM->get(s->host, COHORT_ROLE_WORLD));
}
static cohort_status layout_alone(cohort_strategy* s) {
  return ((const broken*)s->data)->rank == 0 ? BUCKETS->request_relayout(s->host) : COHORT_OK;
}
static cohort_status drift(cohort_strategy* s) {
  cohort_tensor weight;
  const cohort_status status = PARAMETERS->get(s->host, 0, &weight);
  if (status == COHORT_OK && ((const broken*)s->data)->rank == 1) ((float*)weight.data)[0] += 1;
  return status;
}

enum { IN_PLAN_BUCKETS, IN_LAYOUT_READY, IN_END_STEP };
static const struct {
  const char* name;
  int slot;
  cohort_status (*make)(cohort_strategy* s);
} mistakes[] = {
    {"unknown_kind", IN_PLAN_BUCKETS, unknown_kind},
    {"state_without_name", IN_PLAN_BUCKETS, state_without_name},
    {"state_of_two_types", IN_PLAN_BUCKETS, state_of_two_types},
    {"view_of_nothing", IN_LAYOUT_READY, view_of_nothing},
    {"no_communicator", IN_END_STEP, no_communicator},
    {"unknown_root", IN_END_STEP, unknown_root},
    {"no_memory", IN_END_STEP, no_memory},
    {"unknown_optimizer", IN_END_STEP, unknown_optimizer},
    {"unknown_parameter", IN_END_STEP, unknown_parameter},
    {"weight_of_nothing", IN_END_STEP, weight_of_nothing},
    {"foreign_memory", IN_END_STEP, foreign_memory},
    {"crash_on_lane", IN_END_STEP, crash_on_lane},
    {"step_on_lane", IN_END_STEP, step_on_lane},
    {"unknown_lane", IN_END_STEP, unknown_lane},
    {"lane_in_step", IN_END_STEP, lane_in_step},
    {"unknown_ticket", IN_END_STEP, unknown_ticket},
    {"odd_code", IN_END_STEP, odd_code},
    {"negative_code", IN_END_STEP, negative_code},
    {"control_characters", IN_END_STEP, control_characters},
    {"long_message", IN_END_STEP, long_message},
    {"barrier_alone", IN_END_STEP, barrier_alone},
    {"layout_alone", IN_END_STEP, layout_alone},
    {"drift", IN_END_STEP, drift},
};

static cohort_status make_mistake(cohort_strategy* s, int slot) {
  for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; ++i) {
    if (mistakes[i].slot == slot && makes(s, mistakes[i].name)) return mistakes[i].make(s);
  }
  return COHORT_OK;
}

/* ---- slots */

static cohort_status create(cohort_strategy* s, const char* variant, const cohort_key_value* options, uint64_t count) {
  broken* self = calloc(1, sizeof *self);
  (void)variant;
  s->data = self;
  if (!self) return COHORT_RESOURCE_EXHAUSTED;
  for (uint64_t i = 0; i < count; ++i) {
    if (strcmp(options[i].key, "case") == 0) snprintf(self->mistake, sizeof self->mistake, "%s", options[i].value);
  }
  if (!makes(s, "create_without_words")) return COHORT_OK;
  free(self);
  return COHORT_INTERNAL;
}

static void destroy(cohort_strategy* s) {
  free(s->data);
}

static cohort_status plan(cohort_strategy* s, const cohort_job* job, cohort_plan* plan) {
  const cohort_status status = s->below->vt->plan(s->below, job, plan);
  if (makes(s, "plan_of_nothing")) plan->processes_per_node = plan->replicas_per_process = 0;
  if (makes(s, "carrier_pigeon")) plan->collectives = "carrier_pigeon";
  return status;
}

static cohort_status configure_model(cohort_strategy* s) {
  broken* self = s->data;
  cohort_job_info job = {.struct_size = sizeof job};
  cohort_status status = SERVICE(COHORT_JOB_ID, cohort_job_1)->get(s->host, &job);
  self->rank = job.rank;
  if (status != COHORT_OK || makes(s, "configure_not_below")) return status;
  status = s->below->vt->configure_model(s->below);
  return status != COHORT_OK ? status : LANES->create(s->host, "broken", &self->lane);
}

static cohort_status plan_buckets(cohort_strategy* s, cohort_bucket_plan* plan) {
  const cohort_status status = s->below->vt->plan_buckets(s->below, plan);
  if (status != COHORT_OK) return status;
  if (makes(s, "other_plan") && ((broken*)s->data)->rank == 1) plan->flags |= COHORT_PLAN_ONE_BUCKET;
  if (makes(s, "write_behind")) return BUCKETS->want(s->host, COHORT_BUCKET_STATE, "memory", 0, 0);
  return make_mistake(s, IN_PLAN_BUCKETS);
}

static cohort_status layout_ready(cohort_strategy* s, int32_t reason) {
  const cohort_status status = s->below->vt->layout_ready(s->below, reason);
  return status != COHORT_OK ? status : make_mistake(s, IN_LAYOUT_READY);
}

static cohort_status reduce_bucket(cohort_strategy* s, const cohort_step* step, const cohort_bucket* bucket) {
  cohort_tensor memory;
  if (makes(s, "write_behind")) {
    const cohort_status status = BUCKETS->view(s->host, bucket->index, COHORT_BUCKET_STATE, "memory", &memory);
    if (status != COHORT_OK) return status;
    ((float*)memory.data)[bucket->numel] = NAN;
  }
  return s->below->vt->reduce_bucket(s->below, step, bucket);
}

static cohort_status end_step(cohort_strategy* s, const cohort_step* step) {
  const cohort_status status = s->below->vt->end_step(s->below, step);
  return status != COHORT_OK || step->step != 1 ? status : make_mistake(s, IN_END_STEP);
}

static const void* get_extension(cohort_strategy* s, const char* id) {
  static const char words[512] = "a text where a table should be";
  static const uint64_t zeros[64];
  if (makes(s, "text_for_any_id")) return words;
  return makes(s, "zeros_for_any_id") ? (const void*)zeros : s->below->vt->get_extension(s->below, id);
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt),
                                          .create = create,
                                          .destroy = destroy,
                                          .plan = plan,
                                          .configure_model = configure_model,
                                          .plan_buckets = plan_buckets,
                                          .layout_ready = layout_ready,
                                          .reduce_bucket = reduce_bucket,
                                          .end_step = end_step,
                                          .get_extension = get_extension};
static const cohort_option options[] = {
    {.key = "case", .type = "string", .default_value = "", .help = "the mistake; empty: none"}};
static const cohort_component layer = {.struct_size = sizeof(cohort_component),
                                       .kind = COHORT_KIND_STRATEGY,
                                       .name = "broken",
                                       .summary = "makes one mistake",
                                       .inherits = "*",
                                       .options = options,
                                       .num_options = 1,
                                       .vtable = &vtable};
static const cohort_component* const components[] = {&layer, NULL};
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
