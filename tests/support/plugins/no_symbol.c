/* Exports nothing. */
#include "test_plugin.h"

TEST_STRATEGY("no_symbol", NULL);
const cohort_component* const* test_plugin_unused(void);
const cohort_component* const* test_plugin_unused(void) {
  return test_components;
}
