/* Descriptors for plugins that only tests open. A file defines what it does differently before TEST_PLUGIN. */
#ifndef COHORT_TESTS_SUPPORT_PLUGINS_TEST_PLUGIN_H
#define COHORT_TESTS_SUPPORT_PLUGINS_TEST_PLUGIN_H

#include <cohort/api/cohort.h>

/* A strategy NAME that adds nothing to PARENT. */
#define TEST_STRATEGY(NAME, PARENT)                                                          \
  static const cohort_strategy_vt test_vtable = {.struct_size = sizeof(cohort_strategy_vt)}; \
  static const cohort_component test_strategy = {.struct_size = sizeof(cohort_component),    \
                                                 .kind = COHORT_KIND_STRATEGY,               \
                                                 .name = (NAME),                             \
                                                 .summary = "A strategy for tests",          \
                                                 .inherits = (PARENT),                       \
                                                 .vtable = &test_vtable};                    \
  static const cohort_component* const test_components[] = {&test_strategy, NULL}

/* The fields of a descriptor that is right; fields given behind it replace them. */
#define TEST_PLUGIN_FIELDS                                                                             \
  .magic = COHORT_PLUGIN_MAGIC, .struct_size = sizeof(cohort_plugin), .abi_built = COHORT_ABI_VERSION, \
  .abi_required = COHORT_RUNS_ON_ABI, .id = "org.example.test", .version = "1.0.0", .vendor = "", .license = "MIT"

#endif
