#include <unistd.h>

#include "test_plugin.h"

static cohort_status init(const cohort_host* host) {
  (void)host;
  while (pause() != 0) {
  }
  return COHORT_OK;
}

TEST_STRATEGY("hangs_in_init", NULL);
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = test_components, .init = init};
