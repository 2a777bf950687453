#include "test_plugin.h"

TEST_STRATEGY("newer_abi", NULL);
const cohort_plugin cohort_plugin_0 = {
    .magic = COHORT_PLUGIN_MAGIC,
    .struct_size = sizeof(cohort_plugin),
    .abi_built = COHORT_ABI_VERSION + 6,
    .abi_required = COHORT_ABI_VERSION + 6,
    .id = "org.example.test",
    .version = "1.0.0",
    .vendor = "",
    .license = "MIT",
    .components = test_components,
};
