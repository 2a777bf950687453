#include "test_plugin.h"

TEST_STRATEGY("fast_math", NULL);
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = test_components};
