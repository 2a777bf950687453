#include <stdlib.h>

#include "test_plugin.h"

static cohort_status init(const cohort_host* host) {
  (void)host;
  exit(0);
}

TEST_STRATEGY("exits_in_init", NULL);
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = test_components, .init = init};
