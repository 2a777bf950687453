/* Has no descriptor of its own, but is linked to a plugin that has one. */
#include "test_plugin.h"

const cohort_plugin* test_plugin_borrowed(void);
const cohort_plugin* test_plugin_borrowed(void) {
  return &cohort_plugin_0;
}
