#include "test_plugin.h"

const cohort_plugin cohort_plugin_0 = {.magic = 42, .struct_size = sizeof(cohort_plugin)};
