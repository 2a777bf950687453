/* Made for the next major version of the ABI only. */
#include "test_plugin.h"

TEST_STRATEGY("next_major", NULL);
COHORT_EXPORT extern const cohort_plugin cohort_plugin_1;
const cohort_plugin cohort_plugin_1 = {TEST_PLUGIN_FIELDS, .components = test_components};
