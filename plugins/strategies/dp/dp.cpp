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

constexpr cohort_component kDp =
    cohort::sdk::strategy<Dp>("dp", "one process; the batch is split over replicas of the model in threads");

}  // namespace

COHORT_SDK_PLUGIN("org.cohort.dp", COHORT_PLUGIN_VERSION, "cohort", "Apache-2.0", kDp)
