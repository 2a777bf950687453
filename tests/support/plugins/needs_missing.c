/* Needs a symbol that no library has. */
#include "test_plugin.h"

extern cohort_status symbol_that_nobody_defines(const cohort_host* host);

TEST_STRATEGY("needs_missing", NULL);
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = test_components,
                                       .init = symbol_that_nobody_defines};
