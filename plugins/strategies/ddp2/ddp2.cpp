// dp inside a node, ddp across nodes: one process for each node with a replica of the model for each of its devices.
// The host cuts the batch and runs the replicas; the runtime's base adds up their gradients and averages over the
// nodes.
#include <cohort/sdk/strategy.hpp>

namespace {

struct Ddp2 : cohort::sdk::Strategy<Ddp2> {
  void plan(const cohort_job& job, cohort_plan& plan) {
    plan.processes_per_node = 1;
    plan.replicas_per_process = job.num_devices;
    plan.launch = job.external_world_size > 0 || job.num_nodes == 1 ? COHORT_LAUNCH_NONE : COHORT_LAUNCH_EXEC;
  }
};

cohort::sdk::Answer supports(const cohort::sdk::Query& query) {
  switch (query.use()) {
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

constexpr cohort_component kDdp2 =
    cohort::sdk::strategy<Ddp2>(
        "ddp2", "one process per node; its batch is split over replicas, gradients are averaged over the nodes")
        .supports<supports>();

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.ddp2", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kDdp2)
