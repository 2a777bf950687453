#include <stdlib.h>

#include "test_plugin.h"

static cohort_status init(const cohort_host* host) {
  (void)host;
  abort();
}

TEST_STRATEGY("crashes_in_init", NULL);
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = test_components, .init = init};
