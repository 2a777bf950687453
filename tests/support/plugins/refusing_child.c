/* On top of refusing, whose options it takes. */
#include "test_plugin.h"

TEST_STRATEGY("refusing_child", "refusing");
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = test_components};
