#include "test_plugin.h"

const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = NULL};
