/* A strategy that answers one use as its options say. refusing_layer.c makes a free layer of it. */
#include <stdlib.h>
#include <string.h>

#include "test_plugin.h"

#ifndef NAME
#define NAME "refusing"
#define INHERITS NULL
#endif

static const char* value_of(const cohort_query* query, const char* key) {
  uint64_t i;
  for (i = 0; i < query->num_options; ++i) {
    if (strcmp(query->options[i].key, key) == 0) return query->options[i].value;
  }
  return "";
}

static int fits(const char* wanted, const char* is) {
  return *wanted == '\0' || strcmp(wanted, is) == 0;
}

static void supports(const cohort_host* host, cohort_query* query) {
  (void)host;
  if (query->use != atoi(value_of(query, "use")) || query->value < atoi(value_of(query, "from"))) return;
  if (!fits(value_of(query, "if_variant"), query->variant) || !fits(value_of(query, "if_below"), query->below_spec))
    return;
  query->answer = atoi(value_of(query, "answer"));
  if (strcmp(value_of(query, "reason"), "false") == 0) return;
  query->why = NAME " keeps no state for it";
  query->fix = "choose --strategy=ddp";
}

static const cohort_strategy_vt vtable = {.struct_size = sizeof(cohort_strategy_vt), .flags = 0, .create = NULL};
static const cohort_option options[] = {{"use", "int", "0", "COHORT_USE_ that is answered", NULL, 0, 0},
                                        {"from", "int", "0", "from which value on", NULL, 0, 0},
                                        {"if_variant", "string", "", "for this variant alone", NULL, 0, 0},
                                        {"if_below", "string", "", "over this strategy alone", NULL, 0, 0},
                                        {"answer", "int", "2", "the answer", NULL, 0, 0},
                                        {"reason", "bool", "true", "with why and fix", NULL, 0, 0}};
static const char* const variants[] = {"plain", "fancy", NULL};
static const cohort_component strategy = {.struct_size = sizeof(cohort_component),
                                          .kind = COHORT_KIND_STRATEGY,
                                          .name = NAME,
                                          .summary = "Answers as its options say",
                                          .inherits = INHERITS,
                                          .variants = variants,
                                          .options = options,
                                          .num_options = sizeof options / sizeof *options,
                                          .vtable = &vtable,
                                          .supports = supports};
static const cohort_component* const components[] = {&strategy, NULL};

const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = components};
