#include "test_plugin.h"

TEST_STRATEGY("child_of_free", "layer_free");
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = test_components};
