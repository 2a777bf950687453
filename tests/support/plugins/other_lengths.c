/* A descriptor, a component and a table with a field more, unused. */
#include "test_plugin.h"

typedef struct newer_component {
  cohort_component known;
  const char* more;
} newer_component;
typedef struct newer_plugin {
  cohort_plugin known;
  const char* more;
} newer_plugin;
typedef struct newer_vt {
  cohort_strategy_vt known;
  const char* more;
} newer_vt;

static const newer_vt table = {.known = {.struct_size = sizeof(newer_vt)}};
static const newer_component strategy = {.known = {.struct_size = sizeof(newer_component),
                                                   .kind = COHORT_KIND_STRATEGY,
                                                   .name = "other_lengths",
                                                   .summary = "A strategy for tests",
                                                   .vtable = &table}};
static const cohort_component* const components[] = {&strategy.known, NULL};

/* The headers declare the symbol in their own length. */
COHORT_EXPORT const newer_plugin longer_plugin __asm__("cohort_plugin_0") = {
    .known = {.magic = COHORT_PLUGIN_MAGIC,
              .struct_size = sizeof(newer_plugin),
              .abi_built = COHORT_ABI_VERSION,
              .abi_required = COHORT_RUNS_ON_ABI,
              .id = "org.example.test",
              .version = "1.0.0",
              .vendor = "",
              .license = "MIT",
              .components = components}};
