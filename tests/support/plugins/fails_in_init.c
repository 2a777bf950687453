#include "test_plugin.h"

static cohort_status init(const cohort_host* host) {
  return host->fail(host, COHORT_UNAVAILABLE, "the fabric is not plugged in");
}

TEST_STRATEGY("fails_in_init", NULL);
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = test_components, .init = init};
