/* A plugin as it should be. Extensions "init-calls" and "fini-calls" lead to counters. */
#include <string.h>

#include "test_plugin.h"

static int32_t init_calls;
static int32_t fini_calls;

static const void* get_extension(cohort_strategy* s, const char* id) {
  (void)s;
  if (strcmp(id, "init-calls") == 0) return &init_calls;
  if (strcmp(id, "fini-calls") == 0) return &fini_calls;
  return NULL;
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt), .get_extension = get_extension};
static const char* const variants[] = {"plain", "fancy", NULL};
static const cohort_option options[] = {{"bits", "int[1..8]", "8", "Bits of the code", NULL, 0, 0}};
static const cohort_component strategy = {.struct_size = sizeof(cohort_component),
                                          .kind = COHORT_KIND_STRATEGY,
                                          .name = "good",
                                          .summary = "A strategy for tests",
                                          .variants = variants,
                                          .options = options,
                                          .num_options = 1,
                                          .vtable = &vtable};
static const cohort_component* const components[] = {&strategy, NULL};

static cohort_status init(const cohort_host* host) {
  const cohort_log_1* log = host->get_interface(host, COHORT_LOG_ID);
  log->log(host, COHORT_LOG_WARNING, "good was initialised");
  ++init_calls;
  return COHORT_OK;
}

static void fini(void) {
  ++fini_calls;
}

const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components, .init = init, .fini = fini};
