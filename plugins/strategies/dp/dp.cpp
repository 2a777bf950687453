// Data parallel in one process: a replica of the model for each device, each on a thread of its own. The host cuts the
// batch and runs the replicas; the runtime's base adds up their gradients and refreshes them.
#include <string>

#include <cohort/sdk/strategy.hpp>

namespace {

struct Dp : cohort::sdk::Strategy<Dp> {
  void plan(const cohort_job& job, cohort_plan& plan) {
    if (job.num_nodes > 1 || job.external_world_size > 1) {
      const bool nodes = job.num_nodes > 1;
      throw cohort::sdk::invalid_argument("strategy dp runs all replicas in one process, but " +
                                          std::to_string(nodes ? job.num_nodes : job.external_world_size) +
                                          (nodes ? " nodes were asked for; choose --strategy=ddp2 or ddp"
                                                 : " ranks were started; choose --strategy=ddp"));
    }
    plan.processes_per_node = 1;
    plan.replicas_per_process = job.num_devices;
    plan.launch = COHORT_LAUNCH_NONE;
    plan.collectives = "";
  }
};

cohort::sdk::Answer supports(const cohort::sdk::Query& query) {
  switch (query.use()) {
    case COHORT_USE_LAUNCHED:
      return cohort::sdk::no("its replicas are threads of one process", "start one rank, or choose --strategy=ddp");
    case COHORT_USE_NODES:
      return cohort::sdk::no("its replicas are threads of one process", "choose --strategy=ddp2 or ddp");
    case COHORT_USE_OWN_LOOP:
      if (query.replicas() == 1) return cohort::sdk::yes();
      return cohort::sdk::no("a forward pass of one's own cannot be split over replicas", "choose --strategy=ddp");
    case COHORT_USE_BY_HAND:
      if (query.replicas() == 1) return cohort::sdk::yes();
      return cohort::sdk::no("its replicas take one step together", "choose --strategy=ddp");
    default:
      return cohort::sdk::yes_to_known(
          query, {COHORT_USE_CLOSURES, COHORT_USE_JOIN, COHORT_USE_LOSS_SCALER, COHORT_USE_PRECISION});
  }
}

constexpr cohort_component kDp =
    cohort::sdk::strategy<Dp>("dp", "one process; the batch is split over replicas of the model in threads")
        .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.dp", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kDp)
