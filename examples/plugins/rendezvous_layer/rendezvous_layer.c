/* A free layer: laid over whatever strategy was chosen, it changes how ranks come together and inherits everything
 * else.
 *
 * This one only says where the ranks meet. A site that hands out addresses in its own way edits `args` here, or gives a
 * cohort_store of its own, before it passes them on.
 */
#include <cohort/api/cohort.h>
#include <stdio.h>

static cohort_status init_dist_connection(cohort_strategy* s, cohort_dist_args* args) {
  const cohort_log_1* log = s->host->get_interface(s->host, COHORT_LOG_ID);
  if (log) {
    char line[256];
    snprintf(line, sizeof line, "rendezvous_layer: rank %d of %d meets at %s:%d", (int)args->rank,
             (int)args->world_size, args->master_addr ? args->master_addr : "(no address)", (int)args->master_port);
    log->log(s->host, COHORT_LOG_INFO, line);
  }
  return s->below->vt->init_dist_connection(s->below, args);
}

/* Slots that are left out are inherited. */
static const cohort_strategy_vt kLayer = {
    .struct_size = sizeof(cohort_strategy_vt),
    .init_dist_connection = init_dist_connection,
};

static const cohort_component kComponent = {
    .struct_size = sizeof(cohort_component),
    .kind = COHORT_KIND_STRATEGY,
    .name = "rendezvous_layer",
    .summary = "says where the ranks meet",
    .inherits = "*",
    .vtable = &kLayer,
};

static const cohort_component* const kComponents[] = {&kComponent, NULL};

COHORT_EXPORT const cohort_plugin cohort_plugin_0 = {
    .magic = COHORT_PLUGIN_MAGIC,
    .struct_size = sizeof(cohort_plugin),
    .abi_built = COHORT_ABI_VERSION,
    .abi_required = COHORT_RUNS_ON_ABI,
    .id = "org.example.rendezvous_layer",
    .version = "1.0.0",
    .vendor = "Example",
    .license = "MIT",
    .components = kComponents,
};
