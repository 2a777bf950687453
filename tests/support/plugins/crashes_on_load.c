#include <signal.h>

#include "test_plugin.h"

__attribute__((constructor)) static void crash(void) {
  raise(SIGSEGV);
}

TEST_STRATEGY("crashes_on_load", NULL);
const cohort_plugin cohort_plugin_0 = {TEST_PLUGIN_FIELDS, .components = test_components};
